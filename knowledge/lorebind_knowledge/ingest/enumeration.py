"""The documents that sources list, kept in a temporary file and compared with the ledger.

Both are sorted by uri, so that memory does not grow with the number of documents.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from lorebind_knowledge.ingest.spilled import Run, count, in_order, spilled
from lorebind_knowledge.sources.spool import Spool

if TYPE_CHECKING:
    from lorebind_knowledge.catalog.ledger import DocumentEntry
    from lorebind_knowledge.ingest.report import SourceReport
    from lorebind_knowledge.ingest.spilled import Row
    from lorebind_knowledge.sources.base import Source, SourceItem


class OfSource(Protocol):
    """A document in the ledger."""

    @property
    def uri(self) -> str: ...

    @property
    def source(self) -> str: ...


_AT_ONCE = 1000
"""Number of documents that are compared together."""


class Listed(NamedTuple):
    """A listed document, with its row in the ledger if it has one."""

    uri: str
    source: str
    """The key of the first source that lists it."""
    version: str
    """See `SourceItem.version`."""
    number: int
    """That of its source."""
    token: bytes
    at: int
    """The index of an item that is kept in memory; negative if its source restores it."""
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
        self._spool = Spool()
        self._runs: list[Run] = []
        """Rows of documents: the uri, and the other fields of `Listed` without source and entry."""
        self._vanished: list[Run] = []

    def add(self, source: Source, items: Iterable[SourceItem]) -> int:
        """Add the documents of a source, and return their number.

        Raises:
            SourceError: the source failed while it was listed; none of its documents are added.
            StoreError: the temporary file cannot be written.
        """
        number = len(self._sources)
        self._sources.append(source)
        restores = hasattr(source, "restore")
        runs = list(spilled((self._row(number, item, restores) for item in items), self._spool))
        self._runs = [*runs, *self._runs]  # the first source has a document that others list too
        return count(runs)

    def _row(self, number: int, item: SourceItem, restores: bool) -> Row:
        if item.token and restores:
            return item.uri, number, item.version, item.token, -1
        self._items.append(item)
        return item.uri, number, item.version, item.token, len(self._items) - 1

    def __len__(self) -> int:
        """Return the number of documents; one that several sources list counts once."""
        return count(self._runs) if self._only is None else sum(1 for _ in self._rows())

    def uris(self) -> Iterator[str]:
        """Yield the uris of all documents, sorted."""
        return map(itemgetter(0), self._rows())

    def keep_only(self, uris: Collection[str]) -> None:
        """Omit all other documents. The reports on sources stay."""
        self._only = uris

    def item(self, listed: Listed) -> SourceItem:
        """Return the item of a listed document.

        Raises:
            SourceError: its source cannot restore it.
        """
        if listed.at >= 0:
            return self._items[listed.at]
        source: Any = self._sources[listed.number]
        item: SourceItem = source.restore(listed.token)
        return item._replace(uri=listed.uri, version=listed.version)

    def compared(self, entries: Iterable[DocumentEntry]) -> Iterator[Listed]:
        """Yield all documents, sorted by uri, each with its row in the ledger.

        At the end, `vanished` yields the documents of the ledger that are no longer listed.

        Args:
            entries: all documents of an index, sorted by uri.
        """
        self._vanished = []
        gone: list[Row] = []
        keys = [source.key for source in self._sources]
        others = iter(entries)
        entry = next(others, None)
        for uri, number, version, token, at in self._rows():
            while entry is not None and entry.uri < uri:
                self._note_gone(gone, entry)
                entry = next(others, None)
            if entry is None or entry.uri > uri:
                yield Listed(uri, keys[number], version, number, token, at, None)
            else:
                yield Listed(uri, keys[number], version, number, token, at, entry)
                entry = next(others, None)
        for last in () if entry is None else chain([entry], others):
            self._note_gone(gone, last)
        self._vanished += spilled(gone, self._spool)

    def _note_gone(self, gone: list[Row], entry: DocumentEntry) -> None:
        if self._has_vanished(entry):
            gone.append((entry.uri, entry.chunk_count))
        if len(gone) == _AT_ONCE:
            self._vanished += spilled(gone, self._spool)
            gone.clear()

    def vanished(self) -> Iterator[tuple[str, int]]:
        """Yield the documents that `compared` found vanished, with their numbers of chunks."""
        return ((uri, chunks) for uri, chunks in in_order(self._vanished))

    def count_vanished(self, documents: Iterable[OfSource]) -> tuple[int, int]:
        """Return the number of documents in the ledger, and how many of them have vanished.

        Args:
            documents: these documents, sorted by uri.
        """
        total = vanished = 0
        documents, uris, uri = iter(documents), self.uris(), ""
        while some := list(islice(documents, _AT_ONCE)):
            total += len(some)
            listed, last = {uri}, some[-1].uri
            if uri < last:
                for uri in uris:
                    listed.add(uri)
                    if uri >= last:
                        break
            missing = (document for document in some if document.uri not in listed)
            vanished += sum(map(self._has_vanished, missing))
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

    def _rows(self) -> Iterator[Row]:
        rows, only = in_order(self._runs), self._only
        return rows if only is None else (row for row in rows if row[0] in only)
