"""What a chunker is: a function from a text to the spans of its passages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

Interval: TypeAlias = tuple[int, int]
"""Offsets in characters, the end excluded."""


class Chunker(Protocol):
    """Splits a text. It ends on every input, and all but white space is in some interval.

    An implementation inherits the protocol to get its defaults. It is used by several threads.
    """

    @property
    def fingerprint(self) -> str:
        """Changes whenever the same text could be split differently."""
        ...

    @property
    def notices(self) -> Sequence[str]:
        """What users should know of the texts split so far, each said once; mostly nothing."""
        return ()

    @property
    def estimates(self) -> bool:
        """Whether it splits otherwise than it will for an ingest, since it has no embedder."""
        return False

    def for_language(self, language: str) -> Chunker:
        """The chunker for source code of a language: this one, or one that knows its syntax.

        Args:
            language: one of `langchain_text_splitters.Language`; empty for what is no code.
        """
        return self

    def split(
        self, text: str, start: int, end: int, boundaries: Sequence[int] = ()
    ) -> list[Interval]:
        """Intervals of `text` within [start, end), in order of their starts.

        Args:
            text: the whole document.
            start: where the part begins that is to be split.
            end: where it ends.
            boundaries: where headings start, in ascending order, for chunkers that keep to them.
        """
        ...


def strip(text: str, start: int, end: int) -> tuple[int, int]:
    """A part without the white space around it, empty where it is nothing else."""
    part = text[start:end]
    stripped = part.lstrip()
    start = end - len(stripped)
    return start, start + len(stripped.rstrip())
