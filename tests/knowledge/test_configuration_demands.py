"""The demands of a project are found in all files, without running code or reading variables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest

from lorebind_config.checks.named_code import code_named
from lorebind_config.declarations import schema
from lorebind_config.declarations.base import Declaration
from lorebind_config.declarations.values import CLASS_PATH, FACTORY_PATH, CodePath
from lorebind_config.trust import TrustRequirements, read_demands

PROJECT = """\
name: p
embedders:
  - id: mine
    provider: langchain
    class: "hooks:Mine"
    api_key: "{{ .env.KEY }}"
  - { id: theirs, provider: openai, model: text-embedding-3-small }
vector_dbs:
  - { id: db, type: langchain, class: "yaml:Loader", config: { a: ["{{ .secrets.DSN }}"] } }
  - id: pg
    type: langchain
    factory: "hooks:Store.made"
    config:
      engine: { class: "yaml:Dumper", config: { pool: { factory: "hooks:f" } } }
      other: { factory: "hooks:g", config: { url: "{{ .env.URL }}" } }
  - { id: away, type: sqlite, config: { path: ../away.db } }
  - { id: far, type: qdrant, config: { url: "https://example.com" } }
knowledge_bases:
  - id: docs
    sources:
      - type: url
        url: "https://example.com"
        fetch: { headers: { X: "{{ .env.HEADER }}" }, allow: [localhost] }
      - { type: cloud_storage, provider: s3, bucket: b }
      - { type: cloud_storage, provider: file, bucket: /etc }
      - { type: langchain, class: "package.own:Loader" }
    preprocess: { steps: [{ function: "package.own:redact" }] }
    retrieval: { strategy: rerank, rerank: { class: "hooks:Judge" } }
models:
  - { id: default, provider: extractive }
  - { id: far, provider: openai, model: gpt-5 }
  - { id: own, provider: langchain, class: "hooks:Chat" }
agents:
  - { id: a, tools: ["hooks:refund", { call: "package.own:Tools.find" }, { knowledge: docs }],
      model: own }
wrappers: ["hooks:around", { type: cache }]
extensions:
  - { provider: python, class: "hooks:Audit" }
  - { provider: prometheus, port: 9464, textfile: metrics.prom }
  - { provider: prometheus, port: 9464, address: 0.0.0.0, textfile: /var/lib/metrics.prom }
autoload: { include: ["workflows/*.yaml"] }
"""
WORKFLOW = """\
id: w
vars: { name: "{{ .env.NAME }}" }
knowledge_bases:
  - { id: own, sources: [{ type: langchain, class: "hooks:Loader" }] }
tasks:
  - { id: t, prompt: "{{ .workflow.vars.name }} {{ .secrets.TOLD }}" }
  - { id: u, type: python, call: "hooks:f" }
  - id: each
    type: collection
    items: [1]
    tasks:
      - { id: v, type: python, call: "package.own:g", with: { key: "{{ .env.KEY }}" } }
      - { id: w, type: parallel, branches: [{ id: x, type: python, call: "yaml:load" }] }
channels: { seen: { reducers: ["hooks:first", "yaml:scan"] } }
checkpointer: { type: sqlite, path: /var/lib/threads.db }
"""
DEMANDS = """\
lorebind.yaml:5:5: embedder 'mine' wants to run hooks:Mine, in hooks.py
lorebind.yaml:6:5: embedder 'mine' wants to read the variable KEY, and give it to hooks:Mine
lorebind.yaml:7:19: embedder 'theirs' wants to read the variable OPENAI_API_KEY, and send it to \
api.openai.com
lorebind.yaml:9:32: vector database 'db' wants to run yaml:Loader, from an installed package
lorebind.yaml:9:68: vector database 'db' wants to read the variable DSN, and give it to \
yaml:Loader
lorebind.yaml:12:5: vector database 'pg' wants to run hooks:Store.made, in hooks.py
lorebind.yaml:14:17: vector database 'pg' wants to run yaml:Dumper, from an installed package
lorebind.yaml:14:57: vector database 'pg' wants to run hooks:f, in hooks.py
lorebind.yaml:15:16: vector database 'pg' wants to run hooks:g, in hooks.py
lorebind.yaml:15:46: vector database 'pg' wants to read the variable URL, and send it to the host \
in the variable URL, which is not set
lorebind.yaml:16:41: vector database 'away' wants to write a file outside the project folder: AWAY
lorebind.yaml:17:5: vector database 'far' wants to reach example.com
lorebind.yaml:23:29: source wants to read the variable HEADER, and send it to example.com
lorebind.yaml:23:55: source wants to reach addresses of private networks: localhost
lorebind.yaml:24:46: source wants to read the bucket b of s3, with this machine's credentials
lorebind.yaml:25:48: source wants to read a file outside the project folder: /etc
lorebind.yaml:26:28: source wants to run package.own:Loader, in package/own.py, with \
package/__init__.py
lorebind.yaml:27:29: step wants to run package.own:redact, in package/own.py, with \
package/__init__.py
lorebind.yaml:28:46: reranker wants to run hooks:Judge, in hooks.py
lorebind.yaml:31:16: model 'far' wants to reach a model of 'openai', whose client reads variables \
of its own
lorebind.yaml:32:37: model 'own' wants to run hooks:Chat, in hooks.py
lorebind.yaml:34:22: tool wants to run hooks:refund, in hooks.py
lorebind.yaml:34:40: tool wants to run package.own:Tools.find, in package/own.py, with \
package/__init__.py
lorebind.yaml:36:12: wrapper wants to run hooks:around, in hooks.py
lorebind.yaml:38:25: extension wants to run hooks:Audit, in hooks.py
lorebind.yaml:40:41: extension wants to reach other machines, which can read the metrics
lorebind.yaml:40:59: extension wants to write a file outside the project folder: \
/var/lib/metrics.prom
workflows/w.yaml:2:9: workflow 'w' wants to read the variable NAME
workflows/w.yaml:4:45: source wants to run hooks:Loader, in hooks.py
workflows/w.yaml:6:14: task 't' wants to read the variable TOLD
workflows/w.yaml:7:28: task 'u' wants to run hooks:f, in hooks.py
workflows/w.yaml:12:32: task 'v' wants to run package.own:g, in package/own.py, with \
package/__init__.py
workflows/w.yaml:12:63: task 'v' wants to read the variable KEY, and give it to package.own:g
workflows/w.yaml:13:68: task 'x' wants to run yaml:load, from an installed package
workflows/w.yaml:14:32: channel wants to run hooks:first, in hooks.py
workflows/w.yaml:14:47: channel wants to run yaml:scan, from an installed package
workflows/w.yaml:15:31: checkpointer wants to write a file outside the project folder: \
/var/lib/threads.db
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("workflows", "package"):
        (tmp_path / folder).mkdir()
    for name, text in {
        "lorebind.yaml": PROJECT,
        "workflows/w.yaml": WORKFLOW,
        "hooks.py": "1 / 0",
        "package/__init__.py": "1 / 0",
        "package/own.py": "1 / 0",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def table(demands: TrustRequirements) -> str:
    away = str(demands.root.parent / "away.db")
    return "".join(f"{demand}\n" for demand in demands.all).replace(away, "AWAY")


def test_everything_is_found_with_its_place(root: Path) -> None:
    """Code, variables and other demands are found in all files, at any depth; nothing is run."""
    assert table(read_demands(root)) == DEMANDS


def test_every_field_that_names_code_is_found() -> None:
    """Every field that takes the path of code returns it as a value of the type `CodePath`."""
    takes = [
        (name, key)
        for name, definition in schema.json_schema("project")["$defs"].items()
        for key, value in definition["properties"].items()
        for choice in [*value.get("anyOf", [value]), value.get("items", {})]
        if choice.get("pattern") in (CLASS_PATH, FACTORY_PATH)
    ]
    assert len(takes) == 14
    for name, key in takes:
        kind: Any = _declarations()[name]
        (field,) = [name for name, info in kind.model_fields.items() if (info.alias or name) == key]
        chosen = {kind.kind_key: _kind(kind)} if kind.kind_key else {}
        if name == "ModelDeclaration":
            chosen = {"provider": "langchain"}
        needed = {"id": "x"} if "id" in kind.model_fields else {}
        several = get_origin(kind.model_fields[field].annotation) is list
        entry = kind.model_validate(chosen | needed | {key: ["a:b"] if several else "a:b"})
        ((place, path),) = code_named(entry)
        assert (place[0], path) == (field, CodePath("a:b")), (name, key)


def _kind(kind: Any) -> Any:
    return get_args(kind.model_fields[kind.kind_key].annotation)[0]


def _declarations() -> dict[str, Any]:
    kinds: dict[str, Any] = {}
    todo: list[Any] = [Declaration]
    while todo:
        kind = todo.pop()
        kinds[kind.__name__] = kind
        todo += kind.__subclasses__()
    return kinds


def test_a_plain_project_asks_for_nothing(tmp_path: Path) -> None:
    """Documents and data in the project folder need no trust."""
    (tmp_path / "lorebind.yaml").write_text(
        "name: p\nknowledge_bases: [{ id: d, sources: [{ type: markdown_glob, path: '*.md' }] }]\n"
        "vector_dbs: [{ id: db, type: sqlite, config: { path: data/own.db } }]\n"
        "wrappers: [{ type: cache }]\n",
        encoding="utf-8",
    )
    assert read_demands(tmp_path).all == ()


@pytest.mark.parametrize(
    ("name", "old", "new", "new_demands"),
    [
        ("lorebind.yaml", "away.db", "else.db", 1),
        ("lorebind.yaml", "allow: [localhost]", "allow: [example.com]", 1),
        ("lorebind.yaml", "bucket: b }", "bucket: c }", 1),
        ("lorebind.yaml", '"https://example.com"', '"https://example.org"', 2),
        ("workflows/w.yaml", "TOLD", "OTHER", 1),
        ("package/__init__.py", "1 / 0", "2 / 0", 4),
        ("lorebind.yaml", "name: p\n", "# Only a comment.\nname:   q\n", 0),
        ("lorebind.yaml", "strategy: rerank", "strategy: rerank, top_k: 9", 0),
        ("lorebind.yaml", "id: theirs", "id: renamed", 0),
        ("unnamed.py", "", "1 / 0", 0),
    ],
)
def test_only_new_demands_are_new(
    root: Path, name: str, old: str, new: str, new_demands: int
) -> None:
    """A demand is identified by what is demanded and by the code, not by where it is written."""
    digests = {demand.digest for demand in read_demands(root).all}
    file = root / name
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    fresh = [demand for demand in read_demands(root).all if demand.digest not in digests]
    assert len(fresh) == new_demands


def test_a_broken_env_hides_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demands are the same without variables, and with a `.env` that cannot be read."""
    (root / ".env").write_bytes(b"\xff\xfe broken")
    for name in re.findall(r"(?:env|secrets)\.(\w+)", PROJECT + WORKFLOW):
        monkeypatch.delenv(name, raising=False)
    assert table(read_demands(root)) == DEMANDS
