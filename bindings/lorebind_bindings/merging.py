"""How settings of several scopes become one: the last to write a field has its way.

Nothing is forgotten while merging: every field keeps who wrote it, the last first. So merging is
putting one history behind the other, which is associative, and what is in effect is its head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Setting:
    """A value that a scope wrote into a field, and where."""

    value: Any
    """None is an explicit null: it clears what outer scopes set."""
    scope: str
    file: str = ""
    line: int = 0


Layer: TypeAlias = "Mapping[str, tuple[Setting, ...]]"
"""By field: who wrote it, the last first."""
Entries: TypeAlias = "Mapping[str, Layer]"
"""By the id of a knowledge base, in the order of first appearance: what was written of it."""


def merge(outer: Layer, inner: Layer) -> Layer:
    """Both layers in one; where both wrote a field, the inner is in effect."""
    return {name: inner.get(name, ()) + outer.get(name, ()) for name in {**outer, **inner}}


def merge_entries(outer: Entries, inner: Entries) -> Entries:
    """The same for the bindings of two scopes, id by id."""
    return {
        kb_id: merge(outer.get(kb_id, {}), inner.get(kb_id, {})) for kb_id in {**outer, **inner}
    }
