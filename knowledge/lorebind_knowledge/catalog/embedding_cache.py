"""The embedding cache: a text is embedded once, even if several knowledge bases contain it.

It stores the vectors of dense and of sparse embedders in one table, each kind as its codec says.

The size of all vectors is the sum of the changes that transactions have added to a table, so that
writers need not wait for each other to change one row. If two processes write the same vector, it
counts twice, until `trim` finds the sum above the limit and reads the sizes of all vectors.

The least recently used vectors are evicted. Only the day of the last use is stored, so most reads
write nothing. The first use of a day is noted in memory and written together with many others. A
crash loses such notes, but no vectors.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lorebind_config.errors import EmbedderError
from lorebind_config.namespace import digest
from lorebind_knowledge.catalog import leases
from lorebind_knowledge.embedders.base import embed_documents, makes_vectors
from lorebind_knowledge.embedders.sparse import base as sparse
from lorebind_knowledge.embedders.wrapper import is_sparse
from lorebind_knowledge.plumbing.bridge import call, finish
from lorebind_knowledge.records import IDS_END, SparseVector

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.database.databases import Database
    from lorebind_knowledge.database.sql import Sql
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.embedders.sparse.base import SparseEmbedder
    from lorebind_knowledge.records import Matrix, Vector

V = TypeVar("V")

# Two ingests may embed the same text; either result may stay, as both are equally good.
_PUT_AGAIN = (
    "on conflict (key) do update set vector = excluded.vector,"
    " created_at = excluded.created_at, used_on = excluded.used_on, size = excluded.size"
)

_SECONDS_PER_DAY = 86_400
_NOTED_AT_ONCE = 2_000
_GOING_AT_ONCE = 500
"""Rows per transaction, so that a large eviction does not block other writers for long."""
_CHANGES_MERGED_FROM = 1_000
_CHANGES = "from catalog_embedding_sizes"
_OLDEST = "select key, size from catalog_embeddings order by used_on, created_at limit :limit"


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors of a batch, with the number of texts embedded and of cache hits."""

    vectors: Matrix
    texts_embedded: int
    cache_hits: int


class Maker(Protocol):
    """Lets other processes embed the texts of an ingest."""

    most_calls: int
    """Maximum number of concurrent calls of `make` that are useful."""

    async def make(
        self, embedder: Any, new: Mapping[str, str], here: Callable[[], Awaitable[None]]
    ) -> None:
        """Embed texts and store their vectors in the cache.

        Args:
            embedder: an embedder of either kind.
            new: the texts by key.
            here: does so in this process, if no other one can.

        Raises:
            LorebindError: the embedder failed.
        """
        ...

    def notices(self, lease: Lease) -> list[str]:
        """Return messages for the operator about the ingest with this lease, once."""
        ...

    def close(self) -> None:
        """Close its connections; it opens new ones when it is used again."""
        ...


class EmbeddingCache:
    """Vectors by SHA-256 over (embedder fingerprint, address, text), stored in the catalog."""

    def __init__(
        self,
        database: Database,
        max_bytes: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """
        Args:
            database: the catalog's.
            max_bytes: maximum size of all vectors after `trim`, without the data stored next to
                them; None means no limit.
            clock: returns the time in seconds since 1970.
        """
        self._database, self._max_bytes, self._clock = database, max_bytes, clock
        self._lock = threading.Lock()
        self._noted: set[str] = set()
        """The keys of vectors that were used today, which is not stored yet."""
        self._coming: dict[str, Future[None]] = {}
        self.maker: Maker | None = None
        """Embeds the texts of ingests in other processes; None means in this one."""

    def most_calls(self, embedder: Embedder | SparseEmbedder) -> int:
        """Return the maximum number of concurrent calls that an ingest should make."""
        return max(self.maker.most_calls if self.maker else embedder.max_concurrent, 1)

    def notices(self, lease: Lease) -> list[str]:
        """Return messages about where texts were embedded, for the report of an ingest."""
        return self.maker.notices(lease) if self.maker else []

    def close(self) -> None:
        if self.maker is not None:
            self.maker.close()

    async def embed(self, embedder: Embedder, texts: Sequence[str]) -> Embedded:
        """Return the vectors of all texts; call the embedder at most once, with the new texts.

        Nothing is cached, and no text counts as embedded, if the embedder makes no vectors.

        New vectors are stored before this method returns, so that a crash afterwards loses none.
        If another call is embedding one of the texts, this call waits for its result.
        """
        import numpy as np

        if not makes_vectors(embedder):
            return Embedded(await embed_documents(embedder, texts), 0, 0)
        vectors, count = await self._embed(_DENSE, embedder, texts)
        return Embedded(np.stack(vectors), count, len(texts) - count)

    async def embed_sparse(
        self, embedder: SparseEmbedder, texts: Sequence[str]
    ) -> tuple[list[SparseVector], int, int]:
        """Return the sparse vectors of all texts, as `embed` returns dense ones.

        Returns:
            The vectors, the number of texts embedded, and the number of cache hits.
        """
        vectors, count = await self._embed(_SPARSE, embedder, texts)
        return vectors, count, len(texts) - count

    def vectors(self, embedder: Embedder, texts: Sequence[str]) -> Matrix:
        """Return the vectors of all texts to a chunker, which runs in a thread."""
        embedding: Any = self.embed(embedder, texts)
        embedded: Embedded = finish(embedding)
        return embedded.vectors

    async def _embed(
        self, codec: _Codec[V], embedder: Any, texts: Sequence[str]
    ) -> tuple[list[V], int]:
        """Return the vectors of all texts, and the number of new ones."""
        keys = keys_of(embedder, texts)
        # Chunkers may use all threads of another lane to wait for the vectors stored here.
        with self._database.threads.lane("embed"):
            by_key = dict(zip(keys, texts, strict=True))
            vectors, count = await self._embedded(codec, embedder, by_key)
        return [vectors[key] for key in keys], count

    async def _embedded(
        self, codec: _Codec[V], embedder: Any, by_key: Mapping[str, str]
    ) -> tuple[dict[str, V], int]:
        vectors: dict[str, V] = {}
        count = 0
        while missing := [key for key in by_key if key not in vectors]:
            ours, theirs = self._claim(missing)
            try:
                if ours:
                    vectors |= await call(self._read, codec, ours)
                    new = {key: by_key[key] for key in ours if key not in vectors}
                    self._release(ours, new)
                    ours = list(new)
                if ours:
                    vectors |= await self._embed_new(codec, embedder, new, vectors)
                    count += len(new)
            finally:  # after a failure too: those who wait then embed the texts themselves
                self._release(ours)
            for other in theirs:
                await asyncio.wait([asyncio.wrap_future(other)])  # if it failed, we try
        return vectors, count

    def _claim(self, keys: Sequence[str]) -> tuple[list[str], set[Future[None]]]:
        """Return the keys that this call looks up, and the calls that it has to wait for."""
        with self._lock:
            theirs = {self._coming[key] for key in keys if key in self._coming}
            ours = [key for key in keys if key not in self._coming]
            self._coming |= dict.fromkeys(ours, Future())
            return ours, theirs

    def _release(self, keys: Sequence[str], claimed: Iterable[str] = ()) -> None:
        """Let other calls look up keys again, except those that are still `claimed`."""
        if not keys:
            return
        with self._lock:
            (coming,) = {self._coming.pop(key) for key in keys}
            self._coming |= dict.fromkeys(claimed, Future())
        coming.set_result(None)

    async def _embed_new(
        self, codec: _Codec[V], embedder: Any, new: Mapping[str, str], cached: Mapping[str, V]
    ) -> dict[str, V]:
        fresh = await self._made_elsewhere(codec, embedder, new)
        left = {key: text for key, text in new.items() if key not in fresh}
        vectors = await codec.embed(embedder, list(left.values()))
        fresh |= dict(zip(left, vectors, strict=True))
        # Before they are stored: a model that has changed behind its name must not fill the cache.
        codec.check(embedder, list(fresh.values()), cached.values())
        if left:
            await call(self._write, {key: codec.encode(fresh[key]) for key in left})
        return fresh

    async def _made_elsewhere(
        self, codec: _Codec[V], embedder: Any, new: Mapping[str, str]
    ) -> dict[str, V]:
        """Let other processes embed the texts of an ingest, and return those that are stored."""
        if self.maker is None or leases.held.get() is None:
            return {}
        await self.maker.make(embedder, new, lambda: self.store_new(embedder, new))
        return await call(self._read, codec, new)

    async def store_new(
        self,
        embedder: Embedder | SparseEmbedder,
        new: Mapping[str, str],
        also: Callable[[Sql], object] = lambda sql: None,
    ) -> None:
        """Embed texts by key and store their vectors, without looking up whether they are cached.

        Args:
            embedder: an embedder of either kind.
            new: the texts by key.
            also: called in the transaction that stores the vectors.

        Raises:
            EmbedderError, StoreError: an outage; nothing was stored.
        """
        codec: _Codec[Any] = _SPARSE if is_sparse(embedder) else _DENSE
        vectors = await codec.embed(embedder, list(new.values()))
        encoded = [codec.encode(vector) for vector in vectors]
        await call(self._write, dict(zip(new, encoded, strict=True)), also)

    def missing(self, embedder: Embedder | SparseEmbedder, texts: Sequence[str]) -> dict[str, str]:
        """Return the texts that are not cached, each once, by key.

        The lookup does not count as a use of cached vectors, and writes nothing.
        """
        if not makes_vectors(embedder):
            return {}
        by_key = dict(zip(keys_of(embedder, texts), texts, strict=True))
        cached = {key for (key,) in self._rows("key", by_key)}
        return {key: text for key, text in by_key.items() if key not in cached}

    async def trim(self) -> int:
        """Evict the least recently used vectors until the cache is within its size limit.

        Call it when there is time, for example at the end of an ingest. Vectors that were already
        returned stay valid. A call that is reading an evicted vector embeds its text again. It may
        be cancelled or killed at any point, and several processes may call it at the same time.

        Returns:
            the number of evicted vectors.

        Raises:
            StoreError: the catalog cannot be written.
        """
        evicted = 0
        while await call(self._is_too_large) and (count := await call(self._trim_some)):
            evicted += count
        return evicted

    @property
    def _today(self) -> int:
        """The current day, in days since 1970."""
        return int(self._clock() // _SECONDS_PER_DAY)

    def _read(self, codec: _Codec[V], keys: Iterable[str]) -> dict[str, V]:
        today = self._today
        vectors: dict[str, V] = {}
        used_before: list[str] = []
        for key, blob, used_on, size in self._rows("key, vector, used_on, size", keys):
            vector = codec.decode(blob) if _is_sound(blob, used_on, size) else None
            if vector is None:
                continue  # damaged: its text is embedded again and the row replaced
            vectors[key] = vector
            if used_on < today:
                used_before.append(key)
        self._note(used_before)
        return vectors

    def _rows(self, columns: str, keys: Iterable[str]) -> list[Any]:
        query = f"select {columns} from catalog_embeddings where key in (:*keys)"
        with self._database.reading() as sql:
            return sql.run_binary(query, keys=list(keys))

    def _write(
        self, blobs: Mapping[str, bytes], also: Callable[[Sql], object] = lambda sql: None
    ) -> None:
        shared = {"created_at": self._clock(), "used_on": self._today}
        rows = [
            {"key": key, "vector": blob, "size": len(blob), **shared}
            # Sorted, because two processes that store the same texts could deadlock otherwise.
            for key, blob in sorted(blobs.items())
        ]
        with self._database.writing() as sql:
            sql.insert("catalog_embeddings", rows, _PUT_AGAIN)
            _add_change(sql, sum(map(len, blobs.values())))
            also(sql)

    def _note(self, keys: Iterable[str]) -> None:
        """Note that these were used today. Many notes are written together, the rest by `trim`."""
        with self._lock:
            self._noted.update(keys)
            if len(self._noted) < _NOTED_AT_ONCE:
                return
        self._save()

    def _save(self) -> None:
        with self._lock:
            noted, self._noted = sorted(self._noted), set()
        if noted:
            with self._alone() as sql:
                sql.run(
                    "update catalog_embeddings set used_on = :today where key in (:*keys)",
                    today=self._today,
                    keys=noted,
                )

    def _is_too_large(self) -> bool:
        """Return whether vectors may have to be evicted; save what is noted."""
        self._save()
        with self._database.reading() as sql:
            ((changes, size),) = sql.run(f"select count(*), coalesce(sum(bytes), 0) {_CHANGES}")
        if changes > _CHANGES_MERGED_FROM:
            with self._alone() as sql:
                _merge_changes(sql)
        return self._max_bytes is not None and size > self._max_bytes

    def _trim_some(self) -> int:
        assert self._max_bytes is not None
        with self._alone() as sql:
            # Read again: another process may have evicted vectors in the meantime.
            excess = _counted_again(sql) - self._max_bytes
            going: dict[str, int] = {}
            for key, size in sql.run(_OLDEST, limit=_GOING_AT_ONCE):
                if excess <= 0:
                    break
                going[key] = size if type(size) is int else 0  # a damaged row is evicted too
                excess -= going[key]
            sql.run("delete from catalog_embeddings where key in (:*going)", going=list(going))
            _add_change(sql, -sum(going.values()))
        return len(going)

    @contextmanager
    def _alone(self) -> Iterator[Sql]:
        """Open a transaction during which no other process writes days or evicts.

        SQLite allows only one writer anyway. In PostgreSQL, two writers that lock the same rows in
        different orders would deadlock.
        """
        with self._database.writing() as sql:
            if sql.is_postgres:
                sql.run(
                    "select pg_advisory_xact_lock(hashtextextended('lorebind embedding cache',"
                    " hashtextextended(current_schema(), 0)))"
                )
            yield sql


class _Codec(Protocol[V]):
    """How vectors of one kind are computed, and stored as bytes."""

    async def embed(self, embedder: Any, texts: Sequence[str]) -> Sequence[V]: ...

    def check(self, embedder: Any, new: Sequence[V], cached: Iterable[V]) -> None:
        """Check that new vectors fit cached ones of the same embedder; raise `EmbedderError`."""

    def encode(self, vector: V) -> bytes: ...

    def decode(self, blob: bytes) -> V | None:
        """Return the vector, or None if the bytes are damaged."""


class _Dense:
    """Stores a vector as its float32 numbers."""

    async def embed(self, embedder: Embedder, texts: Sequence[str]) -> Any:
        return await embed_documents(embedder, texts)  # the rows of a matrix

    def check(self, embedder: Embedder, new: Sequence[Vector], cached: Iterable[Vector]) -> None:
        others = {len(vector) for vector in cached} - {len(new[0])}
        if others:
            raise EmbedderError(
                f"embedder {embedder.fingerprint} returned vectors of dimension {len(new[0])}, "
                f"but earlier ones have dimension {others.pop()}; "
                "if its model has changed, declare the new model under its own name"
            )

    def encode(self, vector: Vector) -> bytes:
        return vector.astype("<f4").tobytes()

    def decode(self, blob: bytes) -> Vector | None:
        import numpy as np

        if len(blob) % 4:
            return None
        vector: Vector = np.frombuffer(blob, dtype="<f4")
        return vector if np.isfinite(vector).all() else None


class _Sparse:
    """Stores a vector as the ids of its terms, then their weights, 4 bytes each."""

    async def embed(self, embedder: SparseEmbedder, texts: Sequence[str]) -> list[SparseVector]:
        return await sparse.embed_documents(embedder, texts)

    def check(self, embedder: Any, new: Sequence[SparseVector], cached: Any) -> None:
        """Accept everything: vectors of any numbers of terms fit together."""

    def encode(self, vector: SparseVector) -> bytes:
        return vector.ids.astype("<u4").tobytes() + vector.weights.astype("<f4").tobytes()

    def decode(self, blob: bytes) -> SparseVector | None:
        import numpy as np

        count, rest = divmod(len(blob), 8)
        if rest:
            return None
        ids = np.frombuffer(blob, "<u4", count).astype(np.int64)
        weights = np.frombuffer(blob, "<f4", count, offset=4 * count)
        ascending = (ids[1:] > ids[:-1]).all() and ids[-1:].max(initial=0) < IDS_END
        if not (ascending and np.isfinite(weights).all() and (weights > 0).all()):
            return None
        return SparseVector(ids, weights)


_DENSE, _SPARSE = _Dense(), _Sparse()


def _is_sound(blob: Any, used_on: Any, size: Any) -> bool:
    return (
        isinstance(blob, bytes) and (type(used_on), type(size)) == (int, int) and len(blob) == size
    )


def owner_of(embedder: Embedder | SparseEmbedder) -> list[str]:
    """Return what identifies an embedder in the keys of its vectors."""
    made_by = embedder.fingerprint
    # The same model name may stand for another model at another address. The check of an ingest
    # covers one index only.
    owner = [made_by.key, made_by.address] if made_by.address else [made_by.key]
    if is_sparse(embedder):  # a service may offer both kinds under one model name
        owner.append("sparse")
    return owner


def keys_of(embedder: Embedder | SparseEmbedder, texts: Iterable[str]) -> list[str]:
    """Return the keys under which the vectors of texts are stored."""
    owner = owner_of(embedder)
    return [digest(*owner, text) for text in texts]


def _add_change(sql: Sql, size: int) -> None:
    if size:
        sql.insert("catalog_embedding_sizes", [{"bytes": size}])


def _merge_changes(sql: Sql) -> None:
    """Replace the changes by one."""
    _add_change(sql, sum(change for (change,) in sql.run(f"delete {_CHANGES} returning bytes")))


def _counted_again(sql: Sql) -> int:
    """Replace the changes by the size of all vectors, and return it."""
    # In this order: what others write in between may count twice, and never not at all.
    sql.run(f"delete {_CHANGES}")
    size = int(sql.run("select coalesce(sum(size), 0) from catalog_embeddings")[0][0])
    _add_change(sql, size)
    return size
