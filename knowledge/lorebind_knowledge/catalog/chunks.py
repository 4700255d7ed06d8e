"""The chunks of an index in one consistent snapshot of the catalog, for searches."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from lorebind_knowledge.catalog.rows import damaged
from lorebind_knowledge.catalog.versions import LIVE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from lorebind_knowledge.database.sql import Sql
    from lorebind_knowledge.records import Vector

_ALL = 1 << 62
# An outer join, so that the chunks are looked up first: until PostgreSQL has statistics about what
# an ingest has just written, it expects few live versions and would begin with those.
_CHUNKS = "catalog_chunks as c left join catalog_versions as v on v.version = c.version"
_ARE_LIVE = f"c.space = :space and coalesce(v.state, -1) = {LIVE}"
_LIVE_CHUNKS = f"from {_CHUNKS} where {_ARE_LIVE}"
# For hundreds of chunks, PostgreSQL may join the versions of all documents. It cannot do so here.
_OF_ITS_VERSION = "from catalog_versions as its where its.version = c.version"
_AMONG_MANY = (
    "from catalog_chunks as c where c.space = :space and c.number in (:*numbers)"
    f" and (select state {_OF_ITS_VERSION}) = {LIVE}"
)
_WHOLE = "select c.number, c.id, v.uri, c.text, c.metadata"
_WITHOUT_TEXT = f"select c.number, c.id, (select uri {_OF_ITS_VERSION}), '', c.metadata"
_OF_DOCUMENTS = (
    "from catalog_versions as v join catalog_chunks as c on c.version = v.version"
    f" where v.space = :space and v.state = {LIVE} and v.uri"
)
_OF_DOCUMENT = f"{_OF_DOCUMENTS} = :uri"
_WITH_CONTEXT = f"{_WHOLE}, c.context"
_ROWS_AT_ONCE = 10_000
_SCANNED_AT_ONCE = 2_000


class StoredChunk(NamedTuple):
    """A chunk that searches find."""

    number: int
    id: str
    uri: str
    text: str
    metadata: dict[str, Any]
    context: str = ""
    """The text that was embedded before it. Only the queries for a document read it."""


class Member(NamedTuple):
    """The identity of a chunk that searches find."""

    id: str
    version: int
    """The version of its document. Chunks of the same document have the same version."""


class State(NamedTuple):
    """The state of an index in one snapshot."""

    version: int
    live: int
    """Number of chunks that searches find."""
    entered: int
    """Number of vectors that the store may have, including dead and staged ones."""


class Chunks:
    """The chunks of one index in one transaction. Searches find only live chunks."""

    def __init__(self, sql: Sql, index_uid: int) -> None:
        self._sql, self._index_uid = sql, index_uid

    def current_state(self) -> State | None:
        """Return the state of the index, or None if the index no longer exists."""
        rows = self._run(
            "select version, live, entered from catalog_indexes where index_uid = :space"
        )
        return state_of(rows[0]) if rows else None

    def swept(self) -> int | None:
        """Return the version up to which vectors may be gone; None if the index was dropped."""
        rows = self._run("select swept from catalog_indexes where index_uid = :space")
        return _counts(rows[0])[0] if rows else None

    def members(self, numbers: Collection[int]) -> dict[int, Member]:
        """Return chunks by the numbers of their vectors, without those that are not live."""
        query = f"select c.number, c.id, c.version {_AMONG_MANY}"
        rows = self._run(query, numbers=list(numbers))
        return {number: Member(name, version) for number, name, version in rows}

    def chunks(self, numbers: Collection[int]) -> dict[int, StoredChunk]:
        """Return whole chunks by the numbers of their vectors, without those that are not live."""
        query = f"{_WHOLE} {_LIVE_CHUNKS} and c.number in (:*numbers)"
        return {row[0]: _chunk(row) for row in self._run(query, numbers=list(numbers))}

    def without_texts(self, numbers: Collection[int]) -> dict[int, StoredChunk]:
        """Return the same chunks with empty texts."""
        query = f"{_WITHOUT_TEXT} {_AMONG_MANY}"
        return {row[0]: _chunk(row) for row in self._run(query, numbers=list(numbers))}

    def named(self, ids: Collection[str]) -> dict[str, StoredChunk]:
        """Return whole chunks by their ids, without those that are not live."""
        query = f"{_WHOLE} {_LIVE_CHUNKS} and c.id in (:*ids)"
        return {row[1]: _chunk(row) for row in self._run(query, ids=list(ids))}

    def document(self, uri: str, limit: int | None = None, after: int = 0) -> list[StoredChunk]:
        """Return at most `limit` chunks of a document, in order, without the first `after`."""
        query = f"{_WITH_CONTEXT} {_OF_DOCUMENT} order by c.row limit :limit offset :after"
        limit = _ALL if limit is None else limit
        return [_chunk(row) for row in self._run(query, uri=uri, limit=limit, after=after)]

    def of_documents(self, uris: Collection[str]) -> dict[str, list[StoredChunk]]:
        """Return the chunks of documents by uri, in order; documents without chunks are omitted."""
        query = f"{_WITH_CONTEXT} {_OF_DOCUMENTS} in (:*uris) order by c.row"
        chunks: dict[str, list[StoredChunk]] = {}
        for row in self._run(query, uris=list(uris)):
            chunk = _chunk(row)
            chunks.setdefault(chunk.uri, []).append(chunk)
        return chunks

    def metadata_of_documents(self, uris: Collection[str]) -> dict[str, list[dict[str, Any]]]:
        """Return the metadata of the chunks of documents by uri, in order, without their texts."""
        query = f"{_WITHOUT_TEXT} {_OF_DOCUMENTS} in (:*uris)"
        metadata: dict[str, list[dict[str, Any]]] = {}
        for row in self._run(f"{query} order by c.row", uris=list(uris)):
            chunk = _chunk(row)
            metadata.setdefault(chunk.uri, []).append(chunk.metadata)
        return metadata

    def first_metadata(self, uris: Collection[str]) -> dict[str, dict[str, Any]]:
        """Return the metadata of the first chunk of documents, by uri."""
        first = "(select min(row) from catalog_chunks where version = v.version)"
        query = f"{_WITHOUT_TEXT} {_OF_DOCUMENTS} in (:*uris)"
        chunks = map(_chunk, self._run(f"{query} and c.row = {first}", uris=list(uris)))
        return {chunk.uri: chunk.metadata for chunk in chunks}

    def scan(self, contains: str = "", uri: str | None = None) -> Iterator[StoredChunk]:
        """Yield all chunks in the order in which they were ingested, a few thousand at a time.

        Args:
            contains: an ASCII text. Chunks without it, in any case of its letters, are omitted.
            uri: only the chunks of this document.
        """
        query = f"{_WHOLE}, c.row {_LIVE_CHUNKS} and c.row > :after"
        values: dict[str, Any] = {}
        if contains:
            escaped = re.sub(r"[\\%_]", r"\\\g<0>", contains)
            query += f" and c.text {'ilike' if self._sql.is_postgres else 'like'} :like escape '\\'"
            values["like"] = f"%{escaped}%"
        if uri is not None:
            query += " and v.uri = :uri"
            values["uri"] = uri
        after = -1
        while rows := self._run(
            f"{query} order by c.row limit :most", after=after, most=_SCANNED_AT_ONCE, **values
        ):
            for *chunk, after in rows:  # noqa: B007 - the last one is where the next batch starts
                yield _chunk(chunk)

    def around(self, name: str, reach: int) -> list[StoredChunk]:
        """Return a chunk, by id, with `reach` chunks before and after it; empty if missing."""
        query = f"select c.version, c.row {_LIVE_CHUNKS} and c.id = :name"
        chunk = self._run(query, name=name)
        if not chunk:
            return []
        here = {"version": chunk[0][0], "row": chunk[0][1]}
        columns = f"{_WHOLE} from {_CHUNKS} where c.version = :version"
        before = f"{columns} and c.row < :row order by c.row desc limit :n"
        after = f"{columns} and c.row >= :row order by c.row limit :n"
        rows = self._run(before, n=reach, **here)[::-1] + self._run(after, n=reach + 1, **here)
        return [_chunk(row) for row in rows]

    def ids_of_document(self, uri: str) -> list[str]:
        """Return the ids of a document's chunks, in order."""
        return self._column(f"select c.id {_OF_DOCUMENT} order by c.row", uri=uri)

    def first_by_id(self, count: int) -> list[tuple[int, str]]:
        """Return number and id of the first `count` chunks, sorted by id."""
        return self._run(
            f"select c.number, c.id {_LIVE_CHUNKS} order by c.id limit :count", count=count
        )

    def rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of all live chunks and the numbers of their vectors."""
        import numpy as np  # here, because an ingest in which nothing has changed needs none

        try:
            rows = np.array(self._run(f"select c.row, c.number {_LIVE_CHUNKS}"), np.int64)
        except (TypeError, ValueError, OverflowError) as error:
            raise damaged(
                f"the chunks of an index have numbers that are not integers: {error}"
            ) from None
        rows = rows.reshape(-1, 2)
        return rows[:, 0], rows[:, 1]

    def metadata_of(self, rows: Sequence[int]) -> Iterator[tuple[int, str]]:
        """Yield rows of chunks, each with the chunk's metadata as JSON."""
        query = "select row, metadata from catalog_chunks where row in (:*rows)"
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            yield from self._run(query, rows=list(rows[start : start + _ROWS_AT_ONCE]))

    def languages(self) -> dict[str, int]:
        """Return the number of documents that searches find, by language."""
        counted = "select language, documents from catalog_languages where space = :space"
        languages = dict(self._run(f"{counted} and documents <> 0"))
        if any((type(key), type(count)) != (str, int) for key, count in languages.items()):
            raise damaged("the languages of an index hold values that Lorebind never writes")
        return languages

    def has_metadata_key(self, key: str) -> bool:
        """Return whether the metadata of any chunk that searches find has a key.

        The query stops at the first match, so it reads all chunks only if no chunk has the key.
        """
        query = (
            f"select 1 {_LIVE_CHUNKS} and exists (select 1 from {self._keys} where k.key = :key)"
        )
        return bool(self._run(f"{query} limit 1", key=key))

    def metadata_keys(self) -> list[str]:
        """Return all metadata keys of chunks that searches find, sorted. Reads every chunk."""
        query = f"select distinct k.key from {_CHUNKS}, {self._keys} where {_ARE_LIVE}"
        return sorted(self._column(query))

    def live_numbers(self) -> list[int]:
        """Return the numbers of all vectors that searches find."""
        return self._column(f"select c.number {_LIVE_CHUNKS}")

    def newest_numbers(self, count: int) -> list[int]:
        """Return the numbers of the `count` newest vectors that are live, newest first."""
        query = f"select c.number {_LIVE_CHUNKS} order by c.number desc limit :count"
        return self._column(query, count=count)

    def forgotten_numbers(self) -> list[int]:
        """Return the vector numbers that the index has assigned and no longer uses."""
        import numpy as np

        used = self._column("select distinct number from catalog_chunks where space = :space")
        following = self._column("select next_number from catalog_indexes where index_uid = :space")
        assigned = np.arange(1, following[0] if following else 1)
        return list(np.setdiff1d(assigned, used).tolist())

    def embedded_texts(self, numbers: Collection[int]) -> dict[int, str]:
        """Return the whole input of the embedder for each chunk: its context and its text."""
        query = f"select c.number, c.context, c.text {_LIVE_CHUNKS} and c.number in (:*numbers)"
        rows = self._run(query, numbers=list(numbers))
        return {number: f"{context}\n{text}" for number, context, text in rows}

    def texts_with_language(self, numbers: Collection[int]) -> list[tuple[int, str, str, str]]:
        """Return number, uri, language and the whole input of the embedder for each chunk."""
        query = (
            f"select c.number, v.uri, v.language, c.context, c.text {_LIVE_CHUNKS}"
            " and c.number in (:*numbers)"
        )
        rows = self._run(query, numbers=list(numbers))
        return [(number, *about, f"{context}\n{text}") for number, *about, context, text in rows]

    def keep_vectors(self, vectors: Mapping[int, Vector]) -> None:
        """Store copies of vectors, for a vector store that does not return them."""
        rows = [
            {"space": self._index_uid, "number": number, "vector": vector.astype("<f4").tobytes()}
            for number, vector in vectors.items()
        ]
        self._sql.insert("catalog_vectors", rows, "on conflict (space, number) do nothing")

    def kept_vectors(self, numbers: Collection[int]) -> dict[int, Vector]:
        """Return the stored copies of vectors by number; missing ones are omitted."""
        import numpy as np

        query = "select number, vector from catalog_vectors where space = :space"
        rows = self._run(f"{query} and number in (:*numbers)", numbers=list(numbers))
        return {number: np.frombuffer(blob, "<f4") for number, blob in rows}

    @property
    def _keys(self) -> str:
        """The SQL for the keys of a chunk's metadata, as a table."""
        if self._sql.is_postgres:
            return "json_object_keys(c.metadata::json) as k (key)"
        return "json_each(c.metadata) as k"

    def _run(self, query: str, **values: Any) -> list[Any]:
        return self._sql.run(query, space=self._index_uid, **values)

    def _column(self, query: str, **values: Any) -> list[Any]:
        return [value for (value,) in self._run(query, **values)]


def state_of(row: Sequence[Any]) -> State:
    """Return the state of an index from the columns `version`, `live` and `entered`."""
    return State(*_counts(row))


def _counts(row: Sequence[Any]) -> Sequence[int]:
    """Return the row if it holds integers: SQLite allows values of any type in a column."""
    if {type(count) for count in row} != {int}:
        raise damaged(f"an index has {', '.join(map(repr, row))} where integers are expected")
    return row


_decode = json.JSONDecoder().raw_decode
"""Half the time of `json.loads`, which every passage of a result takes."""


def _chunk(row: Any) -> StoredChunk:
    number, name, uri, text, encoded, *rest = row
    try:
        metadata, end = _decode(encoded)
    except (TypeError, ValueError):
        metadata = None
    else:
        metadata = metadata if end == len(encoded) else None
    kinds = (type(number), type(name), type(uri), type(text), type(metadata), *map(type, rest))
    if kinds != (int, str, str, str, dict, str)[: len(kinds)]:
        raise damaged(f"chunk {name!r} of {uri!r} holds values that Lorebind never writes")
    return StoredChunk(number, name, uri, text, metadata, *rest)
