"""The algebra of merging: properties that hold for any settings."""

from __future__ import annotations

from functools import reduce
from itertools import chain
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lorebind_bindings.resolver import Entries, Layer, Setting, merge, merge_entries
from tests.density import examples

FIELDS = ["top_k", "min_score", "fallback", "filters"]
KB_IDS = ["a", "b", "c", "d"]

values = st.none() | st.integers(0, 3) | st.just({}) | st.lists(st.integers(0, 2), max_size=2)
setting_ = st.builds(
    Setting, values, st.sampled_from(["project", "workflow/w", "task/t"]), st.just("f.yaml")
)
layers = st.dictionaries(
    st.sampled_from(FIELDS), st.lists(setting_, min_size=1, max_size=3).map(tuple)
)
entries = st.lists(st.tuples(st.sampled_from(KB_IDS), layers), max_size=4).map(dict)
"""Entries whose ids have a random order, which dictionaries keep."""


def in_effect(layer: Layer) -> dict[str, Any]:
    return {name: written[0].value for name, written in layer.items()}


def all_in_effect(scopes: Entries) -> dict[str, dict[str, Any]]:
    return {kb_id: in_effect(layer) for kb_id, layer in scopes.items()}


def ordered(scopes: Entries) -> list[tuple[str, list[tuple[str, Any]]]]:
    """Return ids and fields with their order, which mapping equality ignores."""
    return [(kb_id, list(layer.items())) for kb_id, layer in scopes.items()]


@given(a=layers, b=layers, c=layers)
def test_layers_merge_associatively(a: Layer, b: Layer, c: Layer) -> None:
    """Layers can be merged in any grouping, with the same histories and order."""
    left, right = merge(merge(a, b), c), merge(a, merge(b, c))
    assert list(left.items()) == list(right.items())


@given(a=entries, b=entries, c=entries)
def test_entries_merge_associatively(a: Entries, b: Entries, c: Entries) -> None:
    """Bindings of several knowledge bases can be merged in any grouping."""
    left, right = merge_entries(merge_entries(a, b), c), merge_entries(a, merge_entries(b, c))
    assert ordered(left) == ordered(right)


@given(a=layers, entry=entries)
def test_nothing_is_the_identity(a: Layer, entry: Entries) -> None:
    """A scope without settings changes nothing, before or after others."""
    assert list(merge({}, a).items()) == list(merge(a, {}).items()) == list(a.items())
    assert ordered(merge_entries({}, entry)) == ordered(entry)
    assert ordered(merge_entries(entry, {})) == ordered(entry)


@given(a=layers, entry=entries)
def test_saying_it_twice_changes_no_value(a: Layer, entry: Entries) -> None:
    """A scope merged with itself has the same values in effect."""
    assert in_effect(merge(a, a)) == in_effect(a)
    assert all_in_effect(merge_entries(entry, entry)) == all_in_effect(entry)


@given(a=layers, b=layers)
def test_the_inner_has_its_way(a: Layer, b: Layer) -> None:
    """The inner value is in effect, even if it is null; otherwise the outer value is."""
    assert in_effect(merge(a, b)) == in_effect(a) | in_effect(b)


@given(a=layers, b=layers)
def test_no_writer_is_forgotten(a: Layer, b: Layer) -> None:
    """A field's history is the inner history followed by the outer one; outer fields come first."""
    merged = merge(a, b)
    assert list(merged) == list(dict.fromkeys([*a, *b]))
    for name, written in merged.items():
        assert written == b.get(name, ()) + a.get(name, ())


@settings(max_examples=examples(60))
@given(scopes=st.lists(entries, max_size=5))
def test_the_order_is_that_of_first_appearance(scopes: list[Entries]) -> None:
    """Ids keep the order of their first appearance, for any number of scopes."""
    nothing: Entries = {}
    merged = reduce(merge_entries, scopes, nothing)
    assert list(merged) == list(dict.fromkeys(chain.from_iterable(scopes)))


@given(a=entries, b=entries)
def test_what_is_merged_stays_as_it_was(a: Entries, b: Entries) -> None:
    """Merging does not change its arguments."""
    before = ordered(a), ordered(b)
    merge_entries(a, b)
    assert (ordered(a), ordered(b)) == before
