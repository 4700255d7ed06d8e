"""Merge the settings of several scopes: the last scope that sets a field determines its value.

Merging keeps the history: every field keeps all scopes that set it, the last first. So a merge
concatenates two histories, which is associative, and the value in effect is the first entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Setting:
    """The value that a scope set for a field, with its location."""

    value: Any
    """None is an explicit null: it clears the value of outer scopes."""
    scope: str
    file: str = ""
    line: int = 0


Layer: TypeAlias = "Mapping[str, tuple[Setting, ...]]"
"""The settings of each field, the last one first."""
Entries: TypeAlias = "Mapping[str, Layer]"
"""The fields set for each knowledge base, by its id, in the order of first appearance."""


def merge(outer: Layer, inner: Layer) -> Layer:
    """Merge two layers; if both set a field, the inner value is in effect."""
    return {name: inner.get(name, ()) + outer.get(name, ()) for name in {**outer, **inner}}


def merge_entries(outer: Entries, inner: Entries) -> Entries:
    """Merge the bindings of two scopes by knowledge base id."""
    return {
        kb_id: merge(outer.get(kb_id, {}), inner.get(kb_id, {})) for kb_id in {**outer, **inner}
    }
