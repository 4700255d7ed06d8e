"""Edits of YAML text produce the expected data and keep all other bytes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from lorebind_config.editing.yaml_text import as_yaml, put_entries
from lorebind_config.reading.yaml_source import YamlSource
from tests.density import examples

from .yaml_styles import SECTIONS, Styled, projects, resources


def merged(data: dict[str, Any], section: str, entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the data of a file after the edit."""
    before = {entry["id"]: entry for entry in data.get(section) or []}
    return data | {section: list((before | {entry["id"]: entry for entry in entries}).values())}


def differs(data: dict[str, Any], section: str, entries: list[dict[str, Any]]) -> set[str]:
    """Return the owners of the pieces of a styled text that an edit may change."""
    ids = {entry["id"] for entry in data.get(section) or []}
    new = any(entry["id"] not in ids for entry in entries)
    return {f"{section}/{entry['id']}" for entry in entries} | ({f"{section}/"} if new else set())


@settings(max_examples=examples(150), deadline=None)
@given(project=projects(nulls=True), update=resources(), section=st.sampled_from(SECTIONS))
def test_an_edit_says_what_it_should_and_leaves_the_rest(
    project: Styled, update: dict[str, list[dict[str, Any]]], section: str
) -> None:
    """In every style of YAML, the entries are written and all other bytes stay."""
    entries = update.get(section, [])
    assert yaml.safe_load(project.text) == project.data
    edited = put_entries(project.text, section, entries)
    after = merged(project.data, section, entries) if entries else project.data
    assert yaml.safe_load(edited) == after
    assert project.pattern(differs(project.data, section, entries)).fullmatch(edited)
    assert ("\r\n" in edited) == ("\r\n" in project.text)
    assert edited.count("\r\n") in (0, edited.count("\n"))


NEW = {"id": "z", "provider": "local"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("name: x\n", "name: x\n\nembedders:\n  - id: z\n    provider: local\n"),
        ("name: x", "name: x\n\nembedders:\n  - id: z\n    provider: local\n"),
        ("embedders: # none yet\n", "embedders: # none yet\n  - id: z\n    provider: local\n"),
        ("embedders: [] # none\nb: 1", "embedders: # none\n  - id: z\n    provider: local\nb: 1"),
        (
            "embedders:\n- id: a # it\n# end\n",
            "embedders:\n- id: a # it\n- id: z\n  provider: local\n# end\n",
        ),
        ("embedders: [{id: a}]\n", "embedders: [{id: a}, {id: z, provider: local}]\n"),
        ("{embedders: null, b: 1}", "{embedders: [{id: z, provider: local}], b: 1}"),
        ('{"a": 1}\n', '{"a": 1, embedders: [{id: z, provider: local}]}\n'),
        (
            "embedders:\n  - id: a\n    text: |\n      b\n      c\n\nb: 1\n",
            "embedders:\n  - id: a\n    text: |\n      b\n      c\n"
            "  - id: z\n    provider: local\n\nb: 1\n",
        ),
        (
            "embedders:\n  - id: z # first\n    text: >-\n      b\n\n\n  - id: b\n",
            "embedders:\n  - id: z\n    provider: local\n\n\n  - id: b\n",
        ),
        (
            "embedders:\n  - {id: z, a: 1} # it\n  -  id: b\n",
            "embedders:\n  - {id: z, provider: local} # it\n  -  id: b\n",
        ),
        ("  a: 1\n", "  a: 1\n\n  embedders:\n    - id: z\n      provider: local\n"),
    ],
)
def test_where_an_entry_is_put(before: str, after: str) -> None:
    """New entries go to the end of the list in its style; known ones are replaced in place."""
    assert put_entries(before, "embedders", [NEW]) == after


def test_several_are_put_in_their_order() -> None:
    """New entries keep their order."""
    edited = put_entries("", "embedders", [{"id": "b"}, {"id": "a"}])
    assert edited == "\nembedders:\n  - id: b\n  - id: a\n"


json_leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(
        ["on", "~", "012", "1e3", "12:30", "=", "<<", "2001-01-01", "- a", "a: b", "{{ .env.X }}"]
    )
    | st.sampled_from(["\x85", "a\x85b ", "\u2028", "\ufeff", "a\n\nb ", " lead", "x " * 80])
)
json_values = st.recursive(
    json_leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(min_size=1, max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=examples(150), deadline=None)
@given(value=json_values, flow=st.booleans())
def test_whatever_json_can_say_is_read_as_it_was_written(value: Any, flow: bool) -> None:
    """Any JSON value is written, in block or flow style, and read back unchanged."""
    entry = {"id": "x", "value": value}
    text = put_entries("all: [{id: a}]\n", "all", [entry]) if flow else as_yaml({"all": [entry]})
    source = YamlSource.parse(text, "f.yaml")
    assert source.problems == ()
    assert repr(source.data["all"][-1]) == repr(entry)
