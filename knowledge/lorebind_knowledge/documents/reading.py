"""Read documents as the index has them: with their metadata, and by their lines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from lorebind_config.errors import NotFoundError, NotIngestedError, UsageError
from lorebind_config.filters import compile_filter
from lorebind_config.namespace import document_id
from lorebind_knowledge.catalog.chunks import Chunks
from lorebind_knowledge.catalog.excluded import excluded_uris
from lorebind_knowledge.catalog.rows import Page
from lorebind_knowledge.documents.listing import (
    HINTS,
    check_limit,
    no_document,
    page_of_documents,
)
from lorebind_knowledge.records import OF_CHUNKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.catalog.chunks import StoredChunk
    from lorebind_knowledge.catalog.indexes import IndexEntry
    from lorebind_knowledge.database.sql import Sql

_PAGE = 100
_LONGEST_SPACE = 4
"""Chunks begin and end at words. More characters between two of one line are text."""


class Line(NamedTuple):
    """A line of a document."""

    line: int
    """Its number, from 1."""
    text: str

    def as_data(self) -> dict[str, Any]:
        return self._asdict()

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        return cls(data["line"], data["text"])


@dataclass(frozen=True, slots=True)
class ReadableDocument:
    """A document that searches find, with what its chunks have in common."""

    id: str
    uri: str
    title: str
    metadata: Mapping[str, Any]
    """The metadata that all its chunks have, such as `author` and `tags`."""
    lines: int
    """The number of its last line that the index has."""


@dataclass(frozen=True, slots=True)
class DocumentLines:
    """Lines of a document, read from the index."""

    document: ReadableDocument
    lines: Sequence[Line]
    """Each line that a chunk holds, and blank lines between chunks."""
    first_line: int
    last_line: int
    chunk_ids: Sequence[str]
    """The ids of the chunks that hold these lines, in their order."""

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """The first and last number of each run of lines that no chunk holds."""
        gaps, expected = [], self.first_line
        for number, _ in [*self.lines, (self.last_line + 1, "")]:
            if number > expected:
                gaps.append((expected, number - 1))
            expected = number + 1
        return gaps

    def texts(self, form: str = "{text}") -> list[tuple[int, str]]:
        """Return the lines and the gaps in their order, each with the number of its last line.

        Args:
            form: how to write a line, with `{number}` and `{text}`.
        """
        texts = [(number, form.format(number=number, text=text)) for number, text in self.lines]
        return sorted([*texts, *((last, _gap(first, last)) for first, last in self.gaps)])

    @property
    def text(self) -> str:
        """The lines as one text; each gap is a line in brackets."""
        return "\n".join(text for _, text in self.texts())

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data. It has the `text` and its `gaps` instead of each line."""
        return {
            "document": asdict(self.document),
            "text": self.text,
            "first_line": self.first_line,
            "last_line": self.last_line,
            "gaps": [{"first_line": first, "last_line": last} for first, last in self.gaps],
            "chunk_ids": list(self.chunk_ids),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Return the lines that `as_data` has returned as plain data."""
        first, last = data["first_line"], data["last_line"]
        ends = {gap["first_line"]: gap["last_line"] for gap in data["gaps"]}
        lines, number = list[Line](), first
        for text in data["text"].split("\n"):
            if number not in ends:
                lines.append(Line(number, text))
            number = ends.get(number, number) + 1
        document = ReadableDocument(**data["document"])
        return cls(document, lines, first, last, data["chunk_ids"])


def _gap(first: int, last: int) -> str:
    lines = f"line {first} is" if first == last else f"lines {first}-{last} are"
    return f"({lines} not in the index)"


def list_readable(
    namespace: Namespace,
    catalog: Catalog,
    *,
    where: Mapping[str, Any],
    limit: int | None = None,
    after: str | None = None,
) -> list[ReadableDocument]:
    """List the documents that searches with a filter find, ordered by uri, with their metadata.

    Args:
        namespace: the knowledge base.
        catalog: the catalog that stores it.
        where: the filter; a document is listed if one of its chunks passes.
        limit: maximum number of documents; None for all.
        after: a uri; only documents after it.

    Raises:
        UsageError: the filter or the limit is invalid.
    """
    check_limit(limit)
    documents = readable_metadata(namespace, catalog, where=where, after=after)
    return [_readable(uri, metadata) for uri, metadata in islice(documents, limit)]


def readable_metadata(
    namespace: Namespace,
    catalog: Catalog,
    *,
    where: Mapping[str, Any],
    after: str | None = None,
) -> Iterator[tuple[str, Sequence[Mapping[str, Any]]]]:
    """Yield the documents of `list_readable`, each with the metadata of the chunks that pass.

    Raises:
        UsageError: the filter is invalid.
    """
    passes = compile_filter(where)
    while True:
        page = page_of_documents(namespace, catalog, Page(_PAGE, after))
        with catalog.reading() as sql:
            index = catalog.ledger.index_within(sql, namespace, "active")
            uris = [entry.uri for entry in page if entry.chunks and not entry.excluded]
            of_uris = Chunks(sql, index.index_uid).metadata_of_documents(uris) if index else {}
        for uri in uris:
            if metadata := [*filter(passes, of_uris.get(uri, ()))]:
                yield uri, metadata
        if len(page) < _PAGE:
            return
        after = page[-1].uri


def unmet(
    namespace: Namespace,
    catalog: Catalog,
    conditions: Mapping[str, Any],
    *,
    where: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the conditions, by key, that none of the passages that searches find meets.

    Args:
        namespace: the knowledge base.
        catalog: the catalog that stores it.
        conditions: the condition of each key.
        where: a filter; only passages that pass it count.

    Raises:
        UsageError: a condition or the filter is invalid.
    """
    left = {key: compile_filter({key: condition}) for key, condition in conditions.items()}
    for _, passages in readable_metadata(namespace, catalog, where=where):
        left = {key: meets for key, meets in left.items() if not any(map(meets, passages))}
        if not left:
            break
    return {key: conditions[key] for key in left}


def read_lines(
    namespace: Namespace,
    catalog: Catalog,
    document: str,
    first_line: int = 1,
    last_line: int | None = None,
    *,
    where: Mapping[str, Any],
) -> DocumentLines:
    """Return lines of a document from the index alone: its source is not read.

    Args:
        namespace: the knowledge base.
        catalog: the catalog that stores it.
        document: its id or uri.
        first_line: the first line, from 1.
        last_line: the last line; None means the last one that the index has.
        where: a filter; chunks that do not pass are omitted.

    Raises:
        NotIngestedError: nothing has been ingested yet.
        NotFoundError: no document has this id or uri, or none of its chunks passes the filter.
        UsageError: the document has no such lines, or the filter is invalid.
    """
    passes = compile_filter(where)
    with catalog.reading() as sql:
        index = ingested(sql, namespace, catalog)
        uris = catalog.ledger.uris_within(sql, index.key, [document])
        uri = uris.get(document)
        if uri in excluded_uris(sql, namespace):
            uri = None
        chunks = Chunks(sql, index.index_uid).document(uri) if uri else []
    chunks = [chunk for chunk in chunks if passes(chunk.metadata)]
    if not chunks:
        raise unreadable(namespace, catalog, document, where)
    readable = _readable(chunks[0].uri, [chunk.metadata for chunk in chunks])
    last = readable.lines if last_line is None else min(last_line, readable.lines)
    if not 1 <= first_line <= last:
        raise UsageError(
            f"{readable.uri!r} has lines 1-{readable.lines}, but lines "
            f"{first_line}-{last_line or 'end'} were requested"
        )
    lines = [line for line in _lines(chunks) if first_line <= line.line <= last]
    ids = [
        chunk.id
        for chunk in chunks
        if chunk.metadata["line_start"] <= last and chunk.metadata["line_end"] >= first_line
    ]
    return DocumentLines(readable, lines, first_line, last, ids)


def ingested(sql: Sql, namespace: Namespace, catalog: Catalog) -> IndexEntry:
    """Return the index in use; raise `NotIngestedError` if there is none."""
    index = catalog.ledger.index_within(sql, namespace, "active")
    if index is None:
        raise NotIngestedError(
            f"nothing has been ingested into knowledge base {namespace.kb!r} yet; ingest it first"
        )
    return index


def unreadable(
    namespace: Namespace, catalog: Catalog, document: str, where: Mapping[str, Any]
) -> NotFoundError:
    """Return the error for a document that no search finds; it names none that a filter hides."""
    known = list_readable(namespace, catalog, where=where, limit=HINTS)
    return no_document(namespace.kb, document, [other.uri for other in known])


def _readable(uri: str, metadata: Sequence[Mapping[str, Any]]) -> ReadableDocument:
    first, *others = metadata
    common = {
        name: value
        for name, value in first.items()
        if name not in OF_CHUNKS and all(other.get(name) == value for other in others)
    }
    lines = max(chunk["line_end"] for chunk in metadata)
    return ReadableDocument(document_id(uri), uri, str(first.get("title", "")), common, lines)


def _lines(chunks: Iterable[StoredChunk]) -> Iterator[Line]:
    """Yield each line that the chunks of a document hold, with its number, without overlaps."""
    number, text, end = 1, "", 0
    is_held = False
    for chunk in sorted(chunks, key=lambda chunk: chunk.metadata["start"]):
        start = chunk.metadata["start"]
        overlap = max(0, end - start)
        if overlap >= len(chunk.text) > 0:
            continue
        first = chunk.metadata["line_start"] + chunk.text.count("\n", 0, overlap)
        if first == number:
            text += _between(start - end) if text else ""
        else:
            if is_held:
                yield Line(number, text)
            blank = range(number + is_held, first)
            if start - end == first - number:  # only line ends are between them
                yield from (Line(number, "") for number in blank)
            text = ""
        *whole, rest = chunk.text[overlap:].split("\n")
        for part in whole:
            yield Line(first, text + part)
            first, text = first + 1, ""
        number, text, is_held = first, text + rest, True
        end = max(end, start + len(chunk.text))
    if is_held:
        yield Line(number, text)


def _between(characters: int) -> str:
    """Return what stands between two chunks on one line."""
    return " " * max(0, characters) if characters <= _LONGEST_SPACE else " … "
