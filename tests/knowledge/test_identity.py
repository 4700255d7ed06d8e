"""Hashes that differ whenever their inputs differ."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_config.namespace import Namespace, chunk_id, digest

HERE = Namespace("acme", "support", "project", "docs")
FIELDS = st.lists(st.text(max_size=4), max_size=4)


def test_fields_are_length_prefixed() -> None:
    """The boundaries between fields are part of the hash."""
    assert digest("a", "bc") != digest("ab", "c")
    assert digest("a", "") != digest("a")
    assert digest("", "a") != digest("a", "")


@given(FIELDS, FIELDS)
def test_only_equal_fields_have_equal_digests(first: list[str], other: list[str]) -> None:
    """Two lists of fields have the same digest exactly if they are equal."""
    assert (digest(*first) == digest(*other)) == (first == other)


def test_any_text_has_a_digest() -> None:
    """A lone surrogate, which UTF-8 refuses, has a digest; a text and its bytes have the same."""
    assert digest("\ud800") != digest("\ud801")
    assert digest("ä") == digest("ä".encode())


@pytest.mark.parametrize("field", ["tenant", "project", "scope", "kb"])
def test_a_chunk_belongs_to_its_namespace(field: str) -> None:
    """Each of the four names is part of a chunk's id."""
    elsewhere = replace(HERE, **{field: "other"})
    assert chunk_id(HERE, "a.md", "text", 0) != chunk_id(elsewhere, "a.md", "text", 0)


def test_a_chunk_is_what_it_says_and_where() -> None:
    """A chunk's id depends on URI, text and the ordinal among equal texts, and on nothing else."""
    ids = {
        chunk_id(HERE, "a.md", "text", 0),
        chunk_id(HERE, "b.md", "text", 0),
        chunk_id(HERE, "a.md", "other", 0),
        chunk_id(HERE, "a.md", "text", 1),
    }
    assert len(ids) == 4
    assert chunk_id(HERE, "a.md", "text", 0) in ids
