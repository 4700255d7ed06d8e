"""What a loader gives: a document's decoded text, and what is known of its structure."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.records import Span, with_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LINE_END = re.compile("\n")

MAX_CHARACTERS = 20_000_000
"""Of one document's text. Formats that pack much into few bytes are refused beyond it."""

LONGEST_TITLE = 1000
"""Of a document or heading, in characters. Titles are repeated with passages: what is longer is
text."""

MOST_HEADINGS = 50_000
"""Of one document whose text is full of marks. What follows them is text."""

_BLOCK = 2**16


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading: where it starts, how deep it is (1 is the top), and what it says."""

    start: int
    level: int
    title: str


@dataclass(frozen=True, slots=True)
class Cue:
    """Which part of a transcript's text is said when, in seconds."""

    start: int
    end: int
    time_start: float
    time_end: float


@dataclass(frozen=True, slots=True)
class Place:
    """Where a part begins that citations name: `page 4`, `slide 4`, `sheet Prices, rows 2-40`."""

    start: int
    kind: Literal["page", "slide", "cell", "chapter", "sheet"]
    name: int | str
    """Its number, or its title as citations show it.

    The first line of a sheet is its name, each further line a row.
    """


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
    """What the document says about itself, for the metadata of all its passages: JSON values."""
    format: str = "text"
    """What it was read as: `markdown`, `html`, `pdf` and so on, see `registry`."""
    language: str = ""
    """Of source code: one of `langchain_text_splitters.Language`, by which it is cut."""
    places: tuple[Place, ...] = ()
    """In order of their starts; empty where the format has no parts but lines."""
    cues: tuple[Cue, ...] = ()
    """In order of their starts; empty where the format has no times."""

    @cached_property
    def _line_ends(self) -> list[int]:
        return [found.start() for found in _LINE_END.finditer(self.text)]

    def span(self, start: int, end: int) -> Span:
        """The span of `text[start:end]`: its lines, and its place or times where there are any."""
        first, last = self._line(start), self._line(max(start, end - 1))
        known = {**self._place(start, end), **self._times(start, end)}
        return Span(start, end, first, last, **known)

    def _line(self, offset: int) -> int:
        return bisect.bisect_left(self._line_ends, offset) + 1

    def _place(self, start: int, end: int) -> dict[str, Any]:
        """The place that the passage begins in, and the rows of it where it is a sheet."""
        after = bisect.bisect_right(self.places, start, key=lambda place: place.start)
        if not after:
            return {}
        place = self.places[after - 1]
        if place.kind == "page":
            return {"page": place.name}
        locator = f"{place.kind} {place.name}"
        if place.kind != "sheet":
            return {"locator": locator}
        if after < len(self.places):
            end = min(end, self.places[after].start)
        said = self.text[start:end].rstrip()
        name_line = self._line(place.start)
        first, last = (self._line(at) - name_line for at in (start, start + len(said) - 1))
        return {"locator": with_rows(locator, max(first, 1), max(last, 1))}

    def _times(self, start: int, end: int) -> dict[str, Any]:
        """From the first cue that the passage touches to the end of the last."""
        if not self.cues:
            return {}
        first = bisect.bisect_right(self.cues, start, key=lambda cue: cue.end)
        after = bisect.bisect_left(self.cues, max(end, start + 1), key=lambda cue: cue.start)
        said = self.cues[first:after]
        if not said:
            return {}
        return {
            "time_start": min(cue.time_start for cue in said),
            "time_end": max(cue.time_end for cue in said),
        }

    def heading_path(self, offset: int) -> list[str]:
        """The titles of the headings that the character stands under, outermost first."""
        at = bisect.bisect_right(self.headings, offset, key=lambda heading: heading.start) - 1
        path: list[str] = []
        while at >= 0:
            path.append(self.headings[at].title)
            at = self._parents[at]
        return path[::-1]

    @cached_property
    def _parents(self) -> list[int]:
        """For each heading, which one it stands under; -1 where that is none."""
        parents: list[int] = []
        path: list[int] = []
        for at, heading in enumerate(self.headings):
            while path and self.headings[path[-1]].level >= heading.level:
                path.pop()
            parents.append(path[-1] if path else -1)
            path.append(at)
        return parents


@lru_cache(maxsize=64)  # asked for again and again while one document is read
def name_of(uri: str) -> PurePosixPath:
    """The file's name in a path or URL, without the query and fragment of a URL."""
    if "://" not in uri:
        return PurePosixPath(PurePosixPath(uri).name)
    try:
        parts = urlsplit(uri)
    except ValueError:  # brackets that hold no IPv6 address
        return PurePosixPath(PurePosixPath(uri).name)
    return PurePosixPath(PurePosixPath(well_formed(unquote(parts.path))).name or parts.netloc)


def title_of(uri: str) -> str:
    """What a document is called that has no title of its own."""
    return name_of(uri).stem or uri


def as_title(text: str) -> str:
    """A title on one line; empty where it is too long to be one."""
    title = well_formed(" ".join(text.split()))
    return title if len(title) <= LONGEST_TITLE else ""


def well_formed(text: str) -> str:
    """The text with what no database takes as text replaced: lone surrogates and zero bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def check_length(length: int, uri: str) -> None:
    """Raise `SourceError` when a text would be longer than `MAX_CHARACTERS`."""
    if length > MAX_CHARACTERS:
        raise SourceError(
            f"{uri}: its text would be longer than {MAX_CHARACTERS:,} characters; "
            "split the document"
        )


def joined(lines: Iterable[str], uri: str, *, separator: str = "\n") -> str:
    """The lines as one text.

    Raises:
        SourceError: when it would be longer than `MAX_CHARACTERS`.
    """
    blocks: list[str] = []  # of many lines each, which take less memory than the lines
    kept: list[str] = []
    length = joined_length = 0
    for line in lines:
        length += len(line) + len(separator)
        check_length(length, uri)
        kept.append(line)
        if length - joined_length > _BLOCK:
            blocks.append(separator.join(kept))
            kept.clear()
            joined_length = length
    if kept:
        blocks.append(separator.join(kept))
    return separator.join(blocks)
