"""Rulers, which measure parts of a text in characters or tokens."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

Unit: TypeAlias = Literal["characters", "tokens"]


class Ruler(Protocol):
    """Measure of the parts of one text. All offsets are characters from the start of the text."""

    def length(self, start: int, end: int) -> int:
        """Return the approximate length of a part, in constant or logarithmic time, for planning.

        The result never decreases as the part grows.
        """
        ...

    def count(self, start: int, end: int) -> int:
        """Return the exact length of a part as a chunk, without surrounding white space."""
        ...

    def reach(self, start: int, end: int, amount: int) -> int:
        """Return about the offset `amount` units after `start`.

        The result is at most `end`; it is at least one character after `start`.
        """
        ...

    def reach_back(self, start: int, end: int, amount: int) -> int:
        """Return about the offset `amount` units before `end`; `end` itself if `amount` is 0."""
        ...


class CharacterRuler:
    """A ruler that counts characters: code points, as Python does."""

    def length(self, start: int, end: int) -> int:
        return end - start

    def count(self, start: int, end: int) -> int:
        return end - start

    def reach(self, start: int, end: int, amount: int) -> int:
        return min(end, start + max(1, amount))

    def reach_back(self, start: int, end: int, amount: int) -> int:
        return max(start, end - amount)


def make_ruler(unit: Unit, text: str, start: int, end: int) -> Ruler:
    """Return a ruler for `text[start:end]`."""
    if unit == "characters":
        return CharacterRuler()
    from lorebind_knowledge.chunking.tokens import TokenRuler

    return TokenRuler(text, start, end)
