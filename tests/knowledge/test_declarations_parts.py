"""Declared factories of LangChain vector stores, and arguments that are objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lorebind_config.declarations.objects import parts
from lorebind_config.errors import ConfigurationError
from lorebind_config.reading.loading import load_project
from lorebind_knowledge.stores.langchain.declaration import LangChainVectorDB

HEAD = "name: p\nvector_dbs:\n  - id: db\n    type: langchain\n"


def declared(config: dict[str, Any]) -> LangChainVectorDB:
    data = {"id": "db", "type": "langchain", "factory": "a.b:C.d", "config": config}
    return LangChainVectorDB.model_validate(data)


def test_which_arguments_are_made() -> None:
    """Mappings with `class` or `factory`, and at most `config`, are created and stay as written."""
    config = {
        "engine": {"factory": "a.b:C.d", "config": {"pool": {"class": "e:F"}, "size": 5}},
        "client": {"class": "e:F"},
        "mapping": {"class": "e:F", "more": 1},
        "settings": {"config": {"class": "not looked at"}},
        "list": [{"class": "e:F"}],
        "text": "factory",
    }
    entry = declared(config)
    assert list(parts(entry.config)) == [("engine", "factory"), ("client", "class")]
    assert list(parts(entry.config["engine"]["config"])) == [("pool", "class")]
    assert entry.written()["config"] == config
    assert type(entry.written()["config"]["client"]["class"]) is str


@pytest.mark.parametrize(
    ("rest", "line", "says"),
    [
        ("    config: {}", 3, "has neither class nor factory; write one of them"),
        ("    class: a:B\n    factory: a:b", 6, "class and factory are both given; keep one of"),
        ("    class: a:B.c", 5, "'a:B.c' is not of the form 'package.module:Class'"),
        ("    factory: a.b", 5, "'a.b' is not of the form 'package.module:function' or '"),
        (
            "    class: a:B\n    config:\n      x: { class: a:B, factory: a:b }",
            7,
            "class and factory are both given; keep one",
        ),
        (
            "    class: a:B\n    config:\n      x:\n        class: a:B.c",
            8,
            "'a:B.c' is not of the form 'package.module:Class'",
        ),
        (
            "    class: a:B\n    config:\n      x: { factory: 5 }",
            7,
            "x cannot be created; write { factory: 'package.module:Name', config: { … } }",
        ),
        (
            "    class: a:B\n    config:\n      x: { factory: a:b, config: [1] }",
            7,
            "x cannot be created; write { factory: 'package.module:Name', config: { … } }",
        ),
        (
            "    class: a:B\n    config:\n      x: { class: a:B, config: { y: { class: ab } } }",
            7,
            "'ab' is not of the form 'package.module:Class'",
        ),
        (
            "    class: a:B\n    config:\n      x: { class: a:B, config: { token: plain } }",
            7,
            "token holds a literal value",
        ),
        (
            '    class: a:B\n    config:\n      x:\n        factory: "{{ .env.A }}:b"',
            8,
            "is not of the form 'package.module:Class' or 'package.module:Class.method'",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, rest: str, line: int, says: str) -> None:
    """Each fault is refused at its position."""
    (tmp_path / "lorebind.yaml").write_text(HEAD + rest, encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        load_project(tmp_path, environ={"A": "a"})
    (problem,) = caught.value.problems
    assert says in f"{problem.message}; {problem.hint}"
    assert problem.line == line
