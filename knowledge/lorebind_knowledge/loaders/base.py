"""What a loader gives: a document's decoded text, and what is known of its structure."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.records import Span

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading: where it starts, how deep it is (1 is the top), and what it says."""

    start: int
    level: int
    title: str


@dataclass(frozen=True)
class LoadedDocument:
    """A document as text. All offsets count characters of `text`, which is the whole file's."""

    text: str
    title: str
    headings: tuple[Heading, ...] = ()
    """In order of their starts."""
    body_start: int = 0
    """Where the indexed part begins: after the front matter, where there is one."""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def _line_ends(self) -> list[int]:
        return [index for index, character in enumerate(self.text) if character == "\n"]

    def span(self, start: int, end: int) -> Span:
        """The span of `text[start:end]`, with its lines."""
        first = bisect.bisect_left(self._line_ends, start) + 1
        last = bisect.bisect_left(self._line_ends, max(start, end - 1)) + 1
        return Span(start, end, first, last)

    def heading_path(self, offset: int) -> list[str]:
        """The titles of the headings that the character stands under, outermost first."""
        path: list[Heading] = []
        for heading in self.headings:
            if heading.start > offset:
                break
            while path and path[-1].level >= heading.level:
                path.pop()
            path.append(heading)
        return [heading.title for heading in path]


def decode(data: bytes, uri: str) -> str:
    """UTF-8 text, with or without a byte order mark.

    Raises:
        SourceError: naming the first byte that is not text.
    """
    if b"\0" in data[:8192]:
        raise SourceError(f"{uri}: looks like a binary file; expected text in UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{uri}: not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}; "
            "save the file as UTF-8"
        ) from error
