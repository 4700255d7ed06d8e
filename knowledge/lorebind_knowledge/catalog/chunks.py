"""Queries about chunks for searches: functions over one consistent snapshot of the catalog."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from lorebind_knowledge.catalog.rows import damaged
from lorebind_knowledge.catalog.versions import LIVE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from lorebind_knowledge.database.sql import Sql
    from lorebind_knowledge.records import Vector

# An outer join, so that the chunks are looked up first: until PostgreSQL has statistics about what
# an ingest has just written, it expects few live versions and would begin with those.
_ALL = 1 << 62
_CHUNKS = "catalog_chunks as c left join catalog_versions as v on v.version = c.version"
_ARE_LIVE = f"c.space = :space and coalesce(v.state, -1) = {LIVE}"
_LIVE_CHUNKS = f"from {_CHUNKS} where {_ARE_LIVE}"
_ROWS_AT_ONCE = 10_000


class StoredChunk(NamedTuple):
    """A chunk that searches find."""

    number: int
    id: str
    uri: str
    text: str
    metadata: dict[str, Any]


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


def state_of(sql: Sql, space: int) -> State | None:
    """Return the state of an index, or None if the index no longer exists."""
    rows = sql.run(
        "select version, live, entered from catalog_indexes where index_uid = :space", space=space
    )
    return State(*_counts(rows[0])) if rows else None


def swept(sql: Sql, space: int) -> int | None:
    """Return the version up to which vectors may be gone; None if the index was dropped."""
    rows = sql.run("select swept from catalog_indexes where index_uid = :space", space=space)
    return _counts(rows[0])[0] if rows else None


def members_of(sql: Sql, space: int, numbers: Collection[int]) -> dict[int, Member]:
    """Return chunks by the numbers of their vectors, without those that are not live."""
    rows = sql.run(
        f"select c.number, c.id, c.version {_LIVE_CHUNKS} and c.number in (:*numbers)",
        space=space,
        numbers=list(numbers),
    )
    return {number: Member(name, version) for number, name, version in rows}


def chunks_of(sql: Sql, space: int, numbers: Collection[int]) -> dict[int, StoredChunk]:
    """Return whole chunks by the numbers of their vectors, without those that are not live."""
    rows = sql.run(
        f"select c.number, c.id, v.uri, c.text, c.metadata {_LIVE_CHUNKS}"
        " and c.number in (:*numbers)",
        space=space,
        numbers=list(numbers),
    )
    return {row[0]: _chunk(row) for row in rows}


def chunks_named(sql: Sql, space: int, ids: Collection[str]) -> dict[str, StoredChunk]:
    """Return whole chunks by their ids, without those that are not live."""
    rows = sql.run(
        f"select c.number, c.id, v.uri, c.text, c.metadata {_LIVE_CHUNKS} and c.id in (:*ids)",
        space=space,
        ids=list(ids),
    )
    return {row[1]: _chunk(row) for row in rows}


def chunks_of_document(
    sql: Sql, space: int, uri: str, limit: int | None = None, after: int = 0
) -> list[StoredChunk]:
    """Return at most `limit` chunks of a document, in order, without the first `after`."""
    rows = sql.run(
        "select c.number, c.id, v.uri, c.text, c.metadata from catalog_versions as v"
        " join catalog_chunks as c on c.version = v.version"
        f" where v.space = :space and v.state = {LIVE} and v.uri = :uri order by c.row"
        " limit :limit offset :after",
        space=space,
        uri=uri,
        limit=_ALL if limit is None else limit,
        after=after,
    )
    return [_chunk(row) for row in rows]


def chunks_around(sql: Sql, space: int, name: str, reach: int) -> list[StoredChunk]:
    """Return a chunk with `reach` chunks before and after it; empty if it no longer exists."""
    found = sql.run(
        f"select c.version, c.row {_LIVE_CHUNKS} and c.id = :name", space=space, name=name
    )
    if not found:
        return []
    here = {"version": found[0][0], "row": found[0][1]}
    columns = (
        "select c.number, c.id, v.uri, c.text, c.metadata from catalog_chunks as c"
        " join catalog_versions as v on v.version = c.version where c.version = :version"
    )
    before = sql.run(f"{columns} and c.row < :row order by c.row desc limit :n", n=reach, **here)
    after = sql.run(f"{columns} and c.row >= :row order by c.row limit :n", n=reach + 1, **here)
    return [_chunk(row) for row in [*reversed(before), *after]]


def ids_of_document(sql: Sql, space: int, uri: str) -> list[str]:
    """Return the ids of a document's chunks, in order."""
    rows = sql.run(
        "select c.id from catalog_versions as v join catalog_chunks as c on c.version = v.version"
        f" where v.space = :space and v.state = {LIVE} and v.uri = :uri order by c.row",
        space=space,
        uri=uri,
    )
    return [name for (name,) in rows]


def first_by_id(sql: Sql, space: int, count: int, after: str = "") -> list[tuple[int, str]]:
    """Return number and id of the first `count` chunks whose id is greater than `after`."""
    return sql.run(
        f"select c.number, c.id {_LIVE_CHUNKS} and c.id > :after order by c.id limit :count",
        space=space,
        after=after,
        count=count,
    )


def live_rows(sql: Sql, space: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of all live chunks and the numbers of their vectors."""
    import numpy as np

    found = sql.run(f"select c.row, c.number {_LIVE_CHUNKS}", space=space)
    try:
        rows = np.array(found, np.int64).reshape(-1, 2)
    except (TypeError, ValueError, OverflowError) as error:
        raise damaged(
            f"the chunks of an index have numbers that are not integers: {error}"
        ) from None
    return rows[:, 0], rows[:, 1]


def metadata_of(sql: Sql, rows: list[int]) -> Iterator[tuple[int, str]]:
    """Yield rows of chunks, each with the chunk's metadata as JSON."""
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        yield from sql.run(
            "select row, metadata from catalog_chunks where row in (:*rows)",
            rows=rows[start : start + _ROWS_AT_ONCE],
        )


def owners_of(sql: Sql, space: int, numbers: Collection[int]) -> list[tuple[int, str]]:
    """Return the numbers of those chunks that are live, each with the uri of its document."""
    return sql.run(
        f"select c.number, v.uri {_LIVE_CHUNKS} and c.number in (:*numbers)",
        space=space,
        numbers=list(numbers),
    )


def numbers_of(sql: Sql, versions: Collection[int]) -> list[tuple[int, int]]:
    """Return version and number of all chunks of some versions of documents."""
    return sql.run(
        "select version, number from catalog_chunks where version in (:*versions)",
        versions=list(versions),
    )


def languages_of(sql: Sql, space: int) -> dict[str, int]:
    """Return the number of documents that searches find, by language."""
    counted = "select language, count(*) from catalog_versions where space = :space"
    languages = dict(sql.run(f"{counted} and state = {LIVE} group by language", space=space))
    if not all(isinstance(language, str) for language in languages):
        raise damaged("documents of an index have a language that is not text")
    return languages


def has_metadata_key(sql: Sql, space: int, key: str) -> bool:
    """Return whether the metadata of any chunk that searches find has a key.

    The query stops at the first match, so it reads all chunks only if no chunk has the key.
    """
    found = f"select 1 {_LIVE_CHUNKS} and exists (select 1 from {_keys(sql)} where k.key = :key)"
    return bool(sql.run(f"{found} limit 1", space=space, key=key))


def metadata_keys(sql: Sql, space: int) -> list[str]:
    """Return all metadata keys of chunks that searches find, sorted. Reads every chunk."""
    found = f"select distinct k.key from {_CHUNKS}, {_keys(sql)} where {_ARE_LIVE}"
    return sorted(key for (key,) in sql.run(found, space=space))


def _keys(sql: Sql) -> str:
    """Return the SQL for the keys of a chunk's metadata, as a table."""
    if sql.is_postgres:
        return "json_object_keys(c.metadata::json) as k (key)"
    return "json_each(c.metadata) as k"


def live_numbers(sql: Sql, space: int) -> list[int]:
    """Return the numbers of all vectors that searches find."""
    return [number for (number,) in sql.run(f"select c.number {_LIVE_CHUNKS}", space=space)]


def newest_numbers(sql: Sql, space: int, count: int) -> list[int]:
    """Return the numbers of the `count` newest vectors that are live, newest first."""
    rows = sql.run(
        f"select c.number {_LIVE_CHUNKS} order by c.number desc limit :count",
        space=space,
        count=count,
    )
    return [number for (number,) in rows]


def forgotten_numbers(sql: Sql, space: int) -> list[int]:
    """Return the vector numbers that an index has assigned and no longer uses."""
    import numpy as np

    known = sql.run("select distinct number from catalog_chunks where space = :space", space=space)
    following = sql.run(
        "select next_number from catalog_indexes where index_uid = :space", space=space
    )
    given = np.arange(1, following[0][0] if following else 1)
    return list(np.setdiff1d(given, [number for (number,) in known]).tolist())


def embedded_texts(sql: Sql, space: int, numbers: Collection[int]) -> dict[int, str]:
    """Return the whole input of the embedder for each chunk: its context and its text."""
    rows = sql.run(
        f"select c.number, c.context, c.text {_LIVE_CHUNKS} and c.number in (:*numbers)",
        space=space,
        numbers=list(numbers),
    )
    return {number: f"{context}\n{text}" for number, context, text in rows}


def keep_vectors(sql: Sql, space: int, vectors: dict[int, Vector]) -> None:
    """Store copies of vectors, for a vector store that does not return them."""
    rows = [
        {"space": space, "number": number, "vector": vector.astype("<f4").tobytes()}
        for number, vector in vectors.items()
    ]
    sql.insert("catalog_vectors", rows, "on conflict (space, number) do nothing")


def kept_vectors(sql: Sql, space: int, numbers: Collection[int]) -> dict[int, Vector]:
    """Return the stored copies of vectors by number; missing ones are omitted."""
    import numpy as np

    rows = sql.run(
        "select number, vector from catalog_vectors where space = :space and number in (:*numbers)",
        space=space,
        numbers=list(numbers),
    )
    return {number: np.frombuffer(blob, "<f4") for number, blob in rows}


def _counts(row: Sequence[Any]) -> Sequence[int]:
    """Return the row if it holds integers: SQLite allows values of any type in a column."""
    if {type(count) for count in row} != {int}:
        raise damaged(f"an index has {', '.join(map(repr, row))} where integers are expected")
    return row


def _chunk(row: Any) -> StoredChunk:
    number, name, uri, text, encoded = row
    try:
        metadata = json.loads(encoded)
    except (TypeError, ValueError):
        metadata = None
    kinds = (type(number), type(name), type(uri), type(text), type(metadata))
    if kinds != (int, str, str, str, dict):
        raise damaged(f"chunk {name!r} of {uri!r} holds values that Lorebind never writes")
    return StoredChunk(number, name, uri, text, metadata)
