"""Measuring the parts of a text, in characters or in tokens."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

Unit: TypeAlias = Literal["characters", "tokens"]


class Ruler(Protocol):
    """Measures parts of one text; all offsets are those of the text, in characters."""

    def length(self, start: int, end: int) -> int:
        """About how long a part is, in no time, for planning; it never falls as the part grows."""
        ...

    def count(self, start: int, end: int) -> int:
        """Exactly how long a part is as a passage of its own, if no white space surrounds it."""
        ...

    def reach(self, start: int, end: int, amount: int) -> int:
        """About how far from `start` the amount goes: the end, or a place at least one further."""
        ...

    def reach_back(self, start: int, end: int, amount: int) -> int:
        """The same backwards from `end`, which it is for nothing."""
        ...


class CharacterRuler:
    """Counts characters: code points, as Python does."""

    def length(self, start: int, end: int) -> int:
        return end - start

    def count(self, start: int, end: int) -> int:
        return end - start

    def reach(self, start: int, end: int, amount: int) -> int:
        return min(end, start + max(1, amount))

    def reach_back(self, start: int, end: int, amount: int) -> int:
        return max(start, end - amount)


def make_ruler(unit: Unit, text: str, start: int, end: int) -> Ruler:
    """A ruler for `text[start:end]`."""
    if unit == "characters":
        return CharacterRuler()
    from lorebind_knowledge.chunking.tokens import TokenRuler

    return TokenRuler(text, start, end)
