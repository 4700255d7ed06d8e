"""JSON and JSON Lines: values with their paths, and errors with their lines."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders import base
from lorebind_knowledge.loaders.base import LoadedDocument
from lorebind_knowledge.loaders.registry import load_document

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def loaded(value: Any, name: str = "x.json") -> LoadedDocument:
    return load_document(json.dumps(value).encode(), name)


def test_paths() -> None:
    """Every value is next to its path, in file order."""
    value = {
        "name": "alpha",
        "servers": [{"host": "a", "ports": [80, 443]}, {"host": "b", "ports": []}],
        "on": True,
        "note": None,
        "more": {},
    }
    assert loaded(value).text.split("\n") == [
        "name: alpha",
        "servers[0].host: a",
        "servers[0].ports[0]: 80",
        "servers[0].ports[1]: 443",
        "servers[1].host: b",
        "servers[1].ports: []",
        "on: true",
        "note: null",
        "more: {}",
    ]


@pytest.mark.parametrize(("value", "text"), [("a", "a"), (7, "7"), ([], "[]"), ([1], "[0]: 1")])
def test_values_that_are_no_object(value: Any, text: str) -> None:
    """A single value is its own text."""
    assert loaded(value).text == text


def test_title() -> None:
    """The title is that of the top-level object, or else the file name."""
    assert loaded({"title": " T "}).title == "T"
    assert loaded({"title": 1}).title == loaded([{"title": "T"}]).title == "x"


def test_lines_are_those_of_the_file() -> None:
    """In JSON Lines, each line has one value, and its content never breaks the line."""
    text = '{"id": 1, "text": "two\\nlines"}\n\n{"id": 2, "at": "\\u2028"}\r\n[3]\n'
    document = load_document(text.encode(), "x.jsonl")
    assert document.text.split("\n") == ["id: 1 | text: two lines", "", "id: 2 | at:", "[0]: 3", ""]


@given(st.lists(VALUES, max_size=6))
def test_as_many_lines(values: list[Any]) -> None:
    """For any values, the n-th value is on line n."""
    text = "\n".join(json.dumps(value, ensure_ascii=False) for value in values)
    document = load_document(text.encode("utf-8", "surrogatepass"), "x.jsonl")
    assert document.text.count("\n") == max(0, len(values) - 1)


@pytest.mark.parametrize(
    ("data", "name", "reason"),
    [
        (b'{"a": 1,\n "b": }', "x.json", r"x.json: line 2, column 7: not JSON: Expecting value"),
        (b"", "x.json", r"x.json: line 1, column 1: not JSON"),
        (b'{"a": 1}\n{"a": \n', "x.jsonl", r"x.jsonl: line 2, column 7: not JSON"),
        (b"[" * 100_000, "x.json", r"x.json: is nested too deeply"),
        (b'{"a": 1}\n' + b"[" * 100_000, "x.jsonl", r"x.jsonl: .*nested too deeply"),
        (b"1" * 5000, "x.json", r"x.json: a number is too long"),
        (b"1\n" + b"1" * 5000, "x.jsonl", r"x.jsonl: line 2: a number is too long"),
    ],
)
def test_not_json(data: bytes, name: str, reason: str) -> None:
    """The error names the location where the text is no longer JSON."""
    with pytest.raises(SourceError, match=reason):
        load_document(data, name)


def test_half_characters_are_replaced() -> None:
    """JSON can contain lone surrogates, which UTF-8 cannot encode."""
    document = load_document(b'{"title": "\\ud800", "a\\u0000": "\\ud83d\\ude00"}', "x.json")
    assert document.text == "title: \ufffd\na\ufffd: 😀"
    assert document.title == "\ufffd"


def test_multiplied_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long keys over many values are cut; a text that still exceeds the limit is refused."""
    assert loaded({"k" * 5000: [1]}).text == f"{'k' * 200}…[0]: 1"
    monkeypatch.setattr(base, "MAX_CHARACTERS", 100_000)
    with pytest.raises(SourceError, match=r"longer than 100,000 characters"):
        loaded({"k" * 5000: [1] * 1000})


def test_long_paths_are_cut() -> None:
    """Only the end of a path with many levels is written; an unsuitable title is not used."""
    value: Any = 1
    for _ in range(300):
        value = {"k" * 20: value}
    path, _, leaf = loaded(value).text.rpartition(": ")
    assert leaf == "1"
    assert path.startswith("…")
    assert path.endswith("." + "k" * 20)
    assert len(path) < 2100
    assert loaded({"title": "x" * 1001}).title == "x"
