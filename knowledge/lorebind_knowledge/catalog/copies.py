"""Copying an index: reading all that searches find, and writing it into a new one.

A new index is `retired` until it is complete, so that no search finds it, and no ingest resumes it:
after an interruption, the next writer drops it. Its documents are live from the start, because they
need not be staged: nobody sees them before the index is activated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lorebind_knowledge.catalog.versions import LIVE, Versions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lorebind_knowledge.database.sql import Sql

GENERATION = 1
"""The generation of all documents of a copy."""

_CHUNKS_AT_ONCE = 1_000


class Indexed(NamedTuple):
    """The part of a document that searches find."""

    language: str
    chunks: int


class CopiedChunk(NamedTuple):
    """A chunk without its id, which depends on the knowledge base."""

    uri: str
    number: int
    """The number of its vector."""
    context: str
    text: str
    metadata: str
    """As JSON."""


class NewChunk(NamedTuple):
    """A chunk of a copy."""

    version: int
    number: int
    id: str
    context: str
    text: str
    metadata: str


class Copies:
    """Reads or writes one index as a whole, in one transaction."""

    def __init__(self, sql: Sql, index_uid: int) -> None:
        self._sql, self._index_uid = sql, index_uid

    def indexed(self, uris: Sequence[str]) -> dict[str, Indexed]:
        """Return these documents by uri, without those that have no live version."""
        rows = self._run(
            "select v.uri, v.language, count(c.row) from catalog_versions as v"
            " left join catalog_chunks as c on c.version = v.version"
            f" where v.space = :space and v.state = {LIVE} and v.uri in (:*uris)"
            " group by v.uri, v.language",
            uris=list(uris),
        )
        return {uri: Indexed(language, count) for uri, language, count in rows}

    def chunks(self, uris: Sequence[str], after: tuple[str, int]) -> list[tuple[int, CopiedChunk]]:
        """Return the next live chunks of these documents, each with its row, sorted by uri and row.

        Args:
            uris: the documents.
            after: uri and row of the chunk before.
        """
        rows = self._run(
            "select c.row, v.uri, c.number, c.context, c.text, c.metadata"
            " from catalog_versions as v join catalog_chunks as c on c.version = v.version"
            f" where v.space = :space and v.state = {LIVE} and v.uri in (:*uris)"
            " and (v.uri > :uri or (v.uri = :uri and c.row > :row)) order by v.uri, c.row"
            f" limit {_CHUNKS_AT_ONCE}",
            uris=list(uris),
            uri=after[0],
            row=after[1],
        )
        return [(row, CopiedChunk(*chunk)) for row, *chunk in rows]

    def add_versions(self, languages: Mapping[str, str]) -> dict[str, int]:
        """Write live versions of documents, given by uri with their languages.

        Returns:
            the version of each document.
        """
        rows = [
            {
                "space": self._index_uid,
                "uri": uri,
                "generation": GENERATION,
                "state": LIVE,
                "language": language,
            }
            for uri, language in languages.items()
        ]
        self._sql.insert("catalog_versions", rows)
        written = self._run(
            "select uri, version from catalog_versions where space = :space and uri in (:*uris)",
            uris=list(languages),
        )
        return dict(written)

    def add_chunks(self, chunks: Sequence[NewChunk]) -> None:
        """Write chunks, whose vectors have new numbers."""
        rows = [{"space": self._index_uid, **chunk._asdict()} for chunk in chunks]
        self._sql.insert("catalog_chunks", rows)

    def finish(self, chunks: int) -> None:
        """Count the chunks, when all of them were written with the numbers from 1."""
        self._run(
            "update catalog_indexes set version = version + 1, live = :chunks, entered = :chunks,"
            " next_number = :chunks + 1 where index_uid = :space",
            chunks=chunks,
        )
        Versions(self._sql, self._index_uid).count_again()

    def _run(self, statement: str, **values: Any) -> list[Any]:
        return self._sql.run(statement, space=self._index_uid, **values)
