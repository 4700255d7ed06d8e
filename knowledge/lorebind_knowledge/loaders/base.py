"""The result of loading: a document's decoded text and its structure."""

from __future__ import annotations

import bisect
import heapq
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import PurePosixPath
from typing import Any, TypeVar, cast
from urllib.parse import unquote, urlsplit

from lorebind_config.errors import SourceError
from lorebind_config.namespace import ADDED_SCHEME
from lorebind_knowledge.loaders.marks import Anchor, Cue, Heading, Record, Scan, Table, TextEdit
from lorebind_knowledge.records import Span, joined_locator, numbered
from lorebind_knowledge.text.values import change_texts

T = TypeVar("T")

_LINE_END = re.compile("\n")

MAX_CHARACTERS = 20_000_000
"""Maximum length of a document's text; a small file of a compressed format can hold much more."""

LONGEST_TITLE = 1000
"""Maximum length of the title of a document or heading, in characters.

Titles are repeated with passages, so longer ones count as text.
"""

MOST_HEADINGS = 50_000
"""Maximum number of headings per document; headings after these count as text."""

MOST_TABLES = 10_000
"""Maximum number of tables per document whose headers are repeated; later ones count as text."""

LONGEST_HEADER = 300
"""Maximum length of a repeated header, in characters.

It is embedded with each passage of its table, and an embedder reads about a thousand characters.
"""

MOST_HEADER_LINES = 3
"""Maximum number of lines of a header; one that has more is only its last lines."""

_BLOCK = 2**16

PARTS = ("page", "slide", "sheet", "chapter", "cell", "image")
"""The parts of documents that are counted if they have no text."""

_CITED_BY_HEADINGS = ("docx",)
"""Formats whose readers see no lines, and no pages that are the same for all of them."""


@dataclass(frozen=True)
class LoadedDocument:
    """A document as text. All offsets count characters of `text`, the text of the whole file."""

    text: str
    title: str
    headings: tuple[Heading, ...] = ()
    """Ordered by start."""
    body_start: int = 0
    """Start of the indexed part: after the front matter, if any."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The document's own metadata, for all its passages: JSON values."""
    format: str = "text"
    """The format it was read as: `markdown`, `html`, `pdf` and so on; see `registry`."""
    language: str = ""
    """For source code, a member of `langchain_text_splitters.Language`; it decides the splits."""
    anchors: tuple[Anchor, ...] = ()
    """Ordered by start; empty if the format has no parts except lines."""
    cues: tuple[Cue, ...] = ()
    """Ordered by start; empty if the format has no times."""
    omitted: Mapping[str, int] = field(default_factory=dict)
    """The number of parts that the loader omitted because they have no text, by `PARTS`.

    Pages are not among them: each has an anchor, also without text.
    """
    tables: tuple[Table, ...] = ()
    """Ordered by start, none within another; only those that have a header."""
    records: tuple[Record, ...] = ()
    """Ordered by start; empty if all metadata is that of the whole document."""
    properties: Mapping[str, Any] = field(default_factory=dict)
    """`author`, `created`, `modified` and `language`, as `properties_of` returns them."""
    body_end: int | None = None
    """End of the indexed part; None for the end of the text."""
    scanned: tuple[Scan, ...] = ()
    """Ordered by start; empty if OCR has recognized nothing."""
    _computed: dict[Callable[..., Any], tuple[tuple[Any, ...], Any]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """The last arguments and result of functions; documents made by `replace` share them."""

    @property
    def end(self) -> int:
        """The end of the indexed part."""
        return len(self.text) if self.body_end is None else self.body_end

    def part(self, start: int, end: int) -> LoadedDocument:
        """Return the document with only `text[start:end]` as its indexed part.

        Its passages keep their headings, and their places in the whole document for citations.
        """
        return replace(self, body_start=start, body_end=end)

    def replaced(
        self, pattern: str | re.Pattern[str], replacement: str | Callable[[re.Match[str]], str]
    ) -> LoadedDocument:
        """Return the document with all matches of a regular expression replaced, as by `re.sub`.

        They are replaced in the text, the titles and headings, the names of parts such as sheets,
        and in all texts within the metadata, also in their keys, and in the metadata of rows.
        """
        compiled = re.compile(pattern)

        def replacement_of(match: re.Match[str]) -> str:
            return match.expand(replacement) if isinstance(replacement, str) else replacement(match)

        matches = compiled.finditer(self.text)
        document = self.edited((*match.span(), replacement_of(match)) for match in matches)
        change = partial(compiled.sub, replacement)
        headings = (mark._replace(title=change(mark.title)) for mark in document.headings)
        anchors = (mark._replace(name=change_texts(mark.name, change)) for mark in document.anchors)
        records = (
            row._replace(metadata=change_texts(row.metadata, change)) for row in document.records
        )
        return replace(
            document,
            title=change(self.title),
            records=tuple(records),
            headings=tuple(headings),
            anchors=tuple(anchors),
            metadata=change_texts(self.metadata, change),
            properties=change_texts(self.properties, change),
        )

    def edited(self, edits: Iterable[tuple[int, int, str]]) -> LoadedDocument:
        """Return the document with parts of its text replaced.

        Headings, pages, tables and times move with the text. A heading that begins within a
        replaced part is removed.

        Args:
            edits: start, end and replacement of each part, in order, without overlaps.
        """
        editing = TextEdit(self.text, edits)
        if not editing.starts:
            return self
        headings = tuple(mark for mark in self.headings if editing.keeps(mark.start))
        return replace(self, headings=headings)._with_text(editing.text, editing.moved)

    def within(self, whole: str, start: int) -> LoadedDocument:
        """Return the document as a part of a longer text, in which its text begins at `start`."""
        return replace(self, body_end=self.end)._with_text(whole, lambda offset: offset + start)

    def _with_text(self, text: str, moved: Callable[[int], int]) -> LoadedDocument:
        """Return the document with another text, in which its parts are at moved offsets."""
        headings = (mark._replace(start=moved(mark.start)) for mark in self.headings)
        anchors = (mark._replace(start=moved(mark.start)) for mark in self.anchors)
        cues = (mark._replace(start=moved(mark.start), end=moved(mark.end)) for mark in self.cues)
        return replace(
            self,
            text=text,
            headings=tuple(headings),
            anchors=tuple(anchors),
            cues=tuple(cues),
            tables=tuple(Table(*map(moved, table)) for table in self.tables),
            records=tuple(row._replace(start=moved(row.start)) for row in self.records),
            scanned=tuple(Scan(*map(moved, scan)) for scan in self.scanned),
            body_start=moved(self.body_start),
            body_end=None if self.body_end is None else moved(self.body_end),
        )

    @cached_property
    def textless_pages(self) -> tuple[int, ...]:
        """The numbers of the pages without text, which are blank or only images."""
        pages = [anchor for anchor in self.anchors if anchor.kind == "page"]
        ends = [*(anchor.start for anchor in pages[1:]), None]
        return tuple(
            int(page.name)
            for page, end in zip(pages, ends, strict=False)
            if not self.text[page.start : end].strip()
        )

    @property
    def textless_parts(self) -> dict[str, int]:
        """The number of its parts without text, by `PARTS`; without those that have none."""
        counts = {**self.omitted, "page": len(self.textless_pages)}
        return {kind: counts[kind] for kind in PARTS if counts.get(kind)}

    def sharing(self, other: LoadedDocument) -> LoadedDocument:
        """Return the document; what both compute of the same text is computed once."""
        return replace(self, _computed=other._computed)

    def _once(self, compute: Callable[..., T], *values: Any) -> T:
        """Return `compute(*values)`, computed once for all parts of a document."""
        before, result = self._computed.get(compute, (None, None))
        if before is None or any(map(operator.is_not, before, values)):
            result = compute(*values)
            self._computed[compute] = values, result
        return cast("T", result)

    def span(self, start: int, end: int) -> Span:
        """Return the span of `text[start:end]`: its lines, and its parts and times if known."""
        first, last = self._line(start), self._line(max(start, end - 1))
        parts = {**self._parts(start, end), **self._times(start, end)}
        after = bisect.bisect_left(self.scanned, end, key=lambda scan: scan.start)
        if after and self.scanned[after - 1].end > start:
            parts["scanned"] = True
        return Span(start, end, first, last, **parts)

    def _line(self, offset: int) -> int:
        return bisect.bisect_left(self._once(line_ends, self.text), offset) + 1

    def parts(self) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each part of the body that is split into passages alone."""
        alone = (anchor.start for anchor in self.anchors if anchor.stands_alone)
        start = self.body_start
        for border in heapq.merge(alone, (record.start for record in self.records)):
            if start < border < self.end:
                yield start, border
                start = border
        yield start, self.end

    def metadata_at(self, offset: int) -> Mapping[str, Any]:
        """Return the metadata of the record that the character is in; empty if there is none."""
        after = bisect.bisect_right(self.records, offset, key=lambda record: record.start)
        return self.records[after - 1].metadata if after else {}

    def _parts(self, start: int, end: int) -> dict[str, Any]:
        """Return the parts that the passage is in, from the first to the last."""
        last = start + max(len(self.text[start:end].rstrip()) - 1, 0)
        if self.format in _CITED_BY_HEADINGS and self.headings:
            first_path = self._headings_at(self._below_headings(start, end))
            return {"locator": joined_locator(first_path, self._headings_at(last))}
        first, final = self._anchor_at(start), self._anchor_at(last)
        if first is None or final is None:
            return {}
        if first.kind == "page":
            page, last_page = int(first.name), int(final.name)
            return {"page": page} | ({} if first is final else {"page_end": last_page})
        return {"locator": joined_locator(self._locator(first, start), self._locator(final, last))}

    def _anchor_at(self, offset: int) -> Anchor | None:
        after = bisect.bisect_right(self.anchors, offset, key=lambda anchor: anchor.start)
        return self.anchors[after - 1] if after else None

    def _headings_at(self, offset: int) -> str:
        return " › ".join(self.heading_path(offset)) or "beginning"

    def _below_headings(self, start: int, end: int) -> int:
        """Return the start of the text below the headings that a passage begins with."""
        at = bisect.bisect_left(self.headings, start, key=lambda heading: heading.start)
        for heading in self.headings[at:]:
            below = self.text.find("\n\n", start, end)
            if heading.start != start or below < 0:
                break
            start = below + 2
        return start

    def _locator(self, anchor: Anchor, offset: int) -> str:
        """Return the locator of a character, with its row for a sheet."""
        locator = f"{anchor.kind} {anchor.name}"
        if anchor.kind != "sheet":
            return locator
        row = max(self._line(offset) - self._line(anchor.start), 1)
        return numbered(f"{locator}, row", row, row)

    def _times(self, start: int, end: int) -> dict[str, Any]:
        """Return the time from the first cue that the passage touches to the end of the last."""
        if not self.cues:
            return {}
        first = bisect.bisect_right(self.cues, start, key=lambda cue: cue.end)
        after = bisect.bisect_left(self.cues, max(end, start + 1), key=lambda cue: cue.start)
        cues = self.cues[first:after]
        if not cues:
            return {}
        return {
            "time_start": min(cue.time_start for cue in cues),
            "time_end": max(cue.time_end for cue in cues),
        }

    def heading_path(self, offset: int) -> list[str]:
        """Return the titles of the headings above the character, outermost first."""
        at = bisect.bisect_right(self.headings, offset, key=lambda heading: heading.start) - 1
        parents = self._once(_parents, self.headings)
        path: list[str] = []
        while at >= 0:
            path.append(self.headings[at].title)
            at = parents[at]
        return path[::-1]

    def header_above(self, offset: int) -> str:
        """Return the header of the table whose rows the character is in; empty if there is none.

        A long header is cut.
        """
        at = bisect.bisect_right(self.tables, offset, key=lambda table: table.start) - 1
        inside = at >= 0 and self.tables[at].rows <= offset < self.tables[at].end
        return self._once(_headers, self.text, self.tables)[at] if inside else ""


def line_ends(text: str) -> list[int]:
    return [end.start() for end in _LINE_END.finditer(text)]


def _headers(text: str, tables: Sequence[Table]) -> list[str]:
    return [_shortened(text[table.start : table.rows]) for table in tables]


def _parents(headings: Sequence[Heading]) -> list[int]:
    """Return the index of each heading's parent heading; -1 if it has none."""
    parents: list[int] = []
    path: list[int] = []
    for at, heading in enumerate(headings):
        while path and headings[path[-1]].level >= heading.level:
            path.pop()
        parents.append(path[-1] if path else -1)
        path.append(at)
    return parents


def misnamed_page(anchors: Iterable[Anchor]) -> str:
    """Return a page that has no number as its name, in words; empty if there is none."""
    names = (str(anchor.name) for anchor in anchors if anchor.kind == "page")
    name = next((name for name in names if not name.isdecimal()), None)
    return "" if name is None else f"a page named {name[:40]!r}, which is not a number"


@lru_cache(maxsize=64)  # called many times for the same document
def name_of(uri: str) -> PurePosixPath:
    """Return the file name in a path or URL, without a URL's query and fragment."""
    if "://" not in uri:
        return PurePosixPath(uri.rstrip("/").rpartition("/")[2])
    try:
        parts = urlsplit(uri)
    except ValueError:  # brackets without an IPv6 address
        return PurePosixPath(PurePosixPath(uri).name)
    return PurePosixPath(PurePosixPath(well_formed(unquote(parts.path))).name or parts.netloc)


def suffix_of(uri: str) -> str:
    """Return the extension of a path or URL in lower case, such as `.md`; empty if it has none."""
    if "://" in uri:
        return name_of(uri).suffix.lower()
    # Without an object for the path: an ingest asks several times for each file.
    path = uri.rstrip("/")
    dot = path.rfind(".")
    return path[dot:].lower() if path.rfind("/") + 1 < dot < len(path) - 1 else ""


def title_of(uri: str) -> str:
    """Return the title for a document that has none of its own."""
    return name_of(uri.removeprefix(ADDED_SCHEME)).stem or uri


def declared_title(value: Any) -> str:
    """Return the title that a document's metadata declares; empty if it is none, or too long."""
    is_title = isinstance(value, str) and len(value.strip()) <= LONGEST_TITLE
    return well_formed(value.strip()) if is_title else ""


def as_title(text: str) -> str:
    """Return a title in one line; empty if it is too long."""
    title = well_formed(" ".join(text.split()))
    return title if len(title) <= LONGEST_TITLE else ""


def well_formed(text: str) -> str:
    """Replace characters that databases do not accept as text: lone surrogates and zero bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _shortened(header: str) -> str:
    """Return the lines of a header, each cut if they are too long together."""
    lines = [line.strip("| \t") for line in header.strip().split("\n")][-MOST_HEADER_LINES:]
    if sum(map(len, lines)) <= LONGEST_HEADER:
        return "\n".join(lines)
    most = LONGEST_HEADER // len(lines)
    return "\n".join(line[:most].rpartition(" | ")[0] or line[:most] for line in lines)


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def check_length(length: int, uri: str) -> None:
    """Check the length of a text.

    Raises:
        SourceError: the text would be longer than `MAX_CHARACTERS`.
    """
    if length > MAX_CHARACTERS:
        raise SourceError(
            f"{uri}: its text would be longer than {MAX_CHARACTERS:,} characters; "
            "split the document"
        )


def joined(lines: Iterable[str], uri: str, *, separator: str = "\n") -> str:
    """Join lines into one text.

    Raises:
        SourceError: the text would be longer than `MAX_CHARACTERS`.
    """
    blocks: list[str] = []  # each joins many lines, which takes less memory than all lines
    waiting: list[str] = []
    length = joined_length = 0
    for line in lines:
        length += len(line) + len(separator)
        check_length(length, uri)
        waiting.append(line)
        if length - joined_length > _BLOCK:
            blocks.append(separator.join(waiting))
            waiting.clear()
            joined_length = length
    if waiting:
        blocks.append(separator.join(waiting))
    return separator.join(blocks)
