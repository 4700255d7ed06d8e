"""The chunker protocol: a chunker maps a text to the intervals of its chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

Interval: TypeAlias = tuple[int, int]
"""Start and end offsets in characters; the end is exclusive."""


class Chunker(Protocol):
    """A strategy that splits texts into chunks.

    A chunker terminates for every input, and every character that is not white space lies in at
    least one interval. Implementations inherit from the protocol to get its defaults, and must be
    safe to call from several threads.
    """

    @property
    def fingerprint(self) -> str:
        """A text that changes whenever the chunker could split the same text differently."""
        ...

    @property
    def notices(self) -> Sequence[str]:
        """Notices for users about the texts split so far, without duplicates; usually empty."""
        return ()

    @property
    def estimates(self) -> bool:
        """Whether the result only estimates that of an ingest, because there is no embedder."""
        return False

    def for_language(self, language: str) -> Chunker:
        """Return the chunker for source code in a language: this one, or one that knows its syntax.

        Args:
            language: a member of `langchain_text_splitters.Language`; empty for a text that is not
                code.
        """
        return self

    def split(
        self, text: str, start: int, end: int, boundaries: Sequence[int] = ()
    ) -> list[Interval]:
        """Return intervals of `text` within [start, end), ordered by their start.

        Args:
            text: the whole document.
            start: start of the part to split.
            end: end of the part to split.
            boundaries: positions where headings start, in ascending order, for chunkers that use
                them.
        """
        ...


def strip(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the part without surrounding white space; empty if it is only white space."""
    part = text[start:end]
    stripped = part.lstrip()
    start = end - len(stripped)
    return start, start + len(stripped.rstrip())
