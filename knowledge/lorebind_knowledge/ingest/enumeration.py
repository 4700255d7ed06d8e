"""The documents that sources list, kept in a temporary file and compared with the ledger.

Both are sorted by uri, so that memory does not grow with the number of documents.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from lorebind_config.errors import SourceError, StoreError

if TYPE_CHECKING:
    from lorebind_knowledge.catalog.ledger import DocumentEntry
    from lorebind_knowledge.ingest.report import SourceReport
    from lorebind_knowledge.sources.base import Source, SourceItem


class OfSource(Protocol):
    """A document in the ledger."""

    @property
    def uri(self) -> str: ...

    @property
    def source(self) -> str: ...


Row = TypeVar("Row", bound=OfSource)

_TABLES = (
    "pragma journal_mode = off",
    "create table listed (uri blob, source integer, version text, token blob, item integer,"
    " primary key (uri, source)) without rowid",
    "create table vanished (uri blob primary key, chunks integer) without rowid",
    "begin",  # never committed: the file is deleted when it is closed
)


class Listed(NamedTuple):
    """A listed document, with its row in the ledger if it has one."""

    uri: str
    source: str
    """The key of the first source that lists it."""
    version: str
    """See `SourceItem.version`."""
    place: tuple[int, bytes, int]
    """The number of its source, and its token or number there."""
    entry: DocumentEntry | None


class Enumeration:
    """The documents that the sources list, and the state of each source."""

    def __init__(self) -> None:
        self.sources: list[SourceReport] = []
        self.unlisted: set[str] = set()
        """The beginnings of the uris of documents in folders that could not be listed."""
        self._sources: list[Source] = []
        self._items: list[SourceItem] = []
        """The items of sources that cannot restore them."""
        self._only: Collection[str] | None = None
        # SQLite keeps a file without a name in memory while it is small, and deletes it at the end.
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        weakref.finalize(self, self._db.close)
        for statement in _TABLES:
            self._db.execute(statement)

    def add(self, source: Source, items: Iterable[SourceItem]) -> int:
        """Add the documents of a source, and return their number.

        Raises:
            SourceError: the source failed while it was listed; none of its documents are added.
            StoreError: the temporary file cannot be written.
        """
        number = len(self._sources)
        self._sources.append(source)
        restores = hasattr(source, "restore")
        try:
            with _disk_errors():
                self._db.executemany(
                    "insert or replace into listed values (?, ?, ?, ?, ?)",
                    (self._row(number, item, restores) for item in items),
                )
        except SourceError:
            self._db.execute("delete from listed where source = ?", [number])
            raise
        ((count,),) = self._db.execute("select count(*) from listed where source = ?", [number])
        return int(count)

    def _row(
        self, number: int, item: SourceItem, restores: bool
    ) -> tuple[bytes, int, str, bytes, int]:
        at = -1
        if not (item.token and restores):
            at = len(self._items)
            self._items.append(item)
        return _encoded(item.uri), number, item.version, item.token, at

    def __len__(self) -> int:
        """Return the number of documents; one that several sources list counts once."""
        if self._only is not None:
            return sum(1 for _ in self._rows())
        ((count,),) = self._db.execute("select count(distinct uri) from listed")
        return int(count)

    def uris(self) -> Iterator[str]:
        """Yield the uris of all documents, sorted."""
        return (row[0] for row in self._rows())

    def keep_only(self, uris: Collection[str]) -> None:
        """Omit all other documents. The reports on sources stay."""
        self._only = uris

    def item(self, listed: Listed) -> SourceItem:
        """Return the item of a listed document.

        Raises:
            SourceError: its source cannot restore it.
        """
        number, token, at = listed.place
        if at >= 0:
            return self._items[at]
        source: Any = self._sources[number]
        item: SourceItem = source.restore(token)
        return item._replace(uri=listed.uri, version=listed.version)

    def compared(self, entries: Iterable[DocumentEntry]) -> Iterator[Listed]:
        """Yield all documents, sorted by uri, each with its row in the ledger.

        At the end, `vanished` yields the documents of the ledger that are no longer listed.

        Args:
            entries: all documents of an index, sorted by uri.
        """
        self._db.execute("delete from vanished")
        for row, entry in _merged(self._rows(), entries):
            if row is not None:
                uri, number, version, token, at = row
                key = self._sources[number].key
                yield Listed(uri, key, version, (number, token, at), entry)
            elif entry is not None and self._has_vanished(entry):
                with _disk_errors():
                    self._db.execute(
                        "insert into vanished values (?, ?)",
                        [_encoded(entry.uri), entry.chunk_count],
                    )

    def vanished(self) -> Iterator[tuple[str, int]]:
        """Yield the documents that `compared` found vanished, with their numbers of chunks."""
        rows = self._db.execute("select uri, chunks from vanished order by uri")
        return ((_decoded(uri), chunks) for uri, chunks in rows)

    def count_vanished(self, documents: Iterable[Row]) -> tuple[int, int]:
        """Return the number of documents in the ledger, and how many of them have vanished."""
        total = vanished = 0
        for row, document in _merged(self._rows(), documents):
            if document is not None:
                total += 1
                vanished += row is None and self._has_vanished(document)
        return total, vanished

    def _has_vanished(self, document: OfSource) -> bool:
        """Return whether a document is no longer listed, although its source was read.

        Documents of a failed source, or of a folder that could not be listed, have not vanished.
        Documents of a source that is no longer declared have, unless some source failed: it may be
        the same source with a typo in its pattern.
        """
        failed = {report.source for report in self.sources if report.status == "failed"}
        read = {report.source for report in self.sources} - failed
        if document.uri.startswith(tuple(self.unlisted)):
            return False
        return not failed or document.source in read

    def _rows(self) -> Iterator[tuple[str, int, str, bytes, int]]:
        before = None
        with _disk_errors():
            for row in self._db.execute("select * from listed order by uri, source"):
                encoded, source, version, token, item = row
                if encoded != before:  # the first source has a document that others list too
                    before = encoded
                    uri = _decoded(encoded)
                    if self._only is None or uri in self._only:
                        yield uri, source, version, token, item


Left = TypeVar("Left", bound=Sequence[Any])


def _merged(
    listed: Iterator[Left], documents: Iterable[Row]
) -> Iterator[tuple[Left | None, Row | None]]:
    """Yield pairs with the same uri, and those of one side alone. Both are sorted by uri."""
    known = iter(documents)
    left, right = next(listed, None), next(known, None)
    while left is not None or right is not None:
        if right is None or (left is not None and left[0] < right.uri):
            yield left, None
            left = next(listed, None)
        elif left is None or right.uri < left[0]:
            yield None, right
            right = next(known, None)
        else:
            yield left, right
            left, right = next(listed, None), next(known, None)


def _encoded(uri: str) -> bytes:
    """Return bytes that are sorted like the uris. A source may return surrogates in them."""
    return uri.encode("utf-8", "surrogatepass")


def _decoded(uri: bytes) -> str:
    return uri.decode("utf-8", "surrogatepass")


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise StoreError(
            f"a temporary file cannot be used: {error}; set TMPDIR to a folder with more space"
        ) from error
