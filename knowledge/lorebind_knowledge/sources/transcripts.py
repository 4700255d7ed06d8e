"""`media_transcript`: what is said in recordings, from files, addresses and videos."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lorebind_knowledge.sources.base import Source, SourceItem

TRANSCRIPT_ENDINGS = (".vtt", ".srt")


class Transcripts:
    """Lists what several sources list; when one of them cannot, none of it is listed."""

    def __init__(self, key: str, parts: Sequence[Source]) -> None:
        self.key = key
        self._parts = parts

    def items(self) -> Iterator[SourceItem]:
        for part in self._parts:
            yield from part.items()
