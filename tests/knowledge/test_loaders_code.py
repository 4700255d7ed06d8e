"""Source code: its language by extension, and how it is split."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from lorebind_knowledge.chunking.make import make_chunker
from lorebind_knowledge.chunking.strategies import ChunkingDeclaration, Language
from lorebind_knowledge.loaders.registry import load_document
from lorebind_knowledge.loaders.text import LANGUAGES

CODE = "import os\n\n\ndef first():\n    return 1\n\n\ndef second():\n    return 2\n"


@pytest.mark.parametrize(
    ("name", "title", "language"),
    [
        ("src/a.py", "a.py", "python"),
        ("https://example.com/App.TSX?raw=1", "App.TSX", "ts"),
        ("a.sql", "a.sql", ""),
        ("a.R", "a.R", "r"),
    ],
)
def test_language(name: str, title: str, language: str) -> None:
    """The extension decides the language; languages without separators have none."""
    document = load_document(CODE.encode(), name, "text/plain")
    assert (document.title, document.language, document.format) == (title, language, "code")
    assert document.text == CODE


def test_languages_are_known() -> None:
    """Every language can be declared."""
    assert set(LANGUAGES.values()) - {""} <= set(get_args(Language))


@pytest.mark.parametrize(
    ("settings", "is_by_syntax"),
    [
        ({}, True),
        ({"strategy": "markdown"}, True),
        ({"strategy": "html"}, True),
        ({"strategy": "json"}, True),
        ({"strategy": "fixed"}, False),
        ({"strategy": "token"}, False),
        ({"strategy": "semantic"}, False),
        ({"strategy": "code", "language": "js"}, False),
    ],
)
def test_which_chunker(settings: dict[str, Any], is_by_syntax: bool) -> None:
    """Structural strategies split code by its syntax; other strategies split it as declared."""
    sizes = {} if settings.get("strategy") == "semantic" else {"size": 64, "overlap": 0}
    chunker = make_chunker(ChunkingDeclaration.model_validate({**settings, **sizes}))
    code = chunker.for_language("python")
    assert (code is not chunker) == is_by_syntax
    assert code.fingerprint == chunker.for_language("python").fingerprint
    assert chunker.for_language("") is chunker
    assert chunker.for_language("perl") is chunker
    if is_by_syntax:
        pieces = [CODE[start:end] for start, end in code.split(CODE, 0, len(CODE))]
        assert [piece.split("\n")[0] for piece in pieces] == ["import os", "def second():"]
        assert "size=64 overlap=0" in code.fingerprint
