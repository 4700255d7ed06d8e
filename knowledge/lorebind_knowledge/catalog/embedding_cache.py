"""The embedding cache: a text is embedded once, even if several knowledge bases contain it.

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
from typing import TYPE_CHECKING, Any

from lorebind_config.errors import EmbedderError
from lorebind_config.namespace import digest
from lorebind_knowledge.embedders.base import embed_documents
from lorebind_knowledge.plumbing.bridge import call, finish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from lorebind_knowledge.database.databases import Database
    from lorebind_knowledge.database.sql import Sql
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.records import Matrix, Vector

# Two ingests may embed the same text; either result may stay, as both are equally good.
_PUT_AGAIN = (
    "on conflict (key) do update set vector = excluded.vector,"
    " created_at = excluded.created_at, used_on = excluded.used_on, size = excluded.size"
)

_SECONDS_PER_DAY = 86_400
_NOTED_AT_ONCE = 2_000
_GOING_AT_ONCE = 500
"""Rows per transaction, so that a large eviction does not block other writers for long."""
_OLDEST = "select key, size from catalog_embeddings order by used_on, created_at limit :limit"


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors of a batch, with the number of texts embedded and of cache hits."""

    vectors: Matrix
    texts_embedded: int
    cache_hits: int


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
        self._written = 0

    async def embed(self, embedder: Embedder, texts: Sequence[str]) -> Embedded:
        """Return the vectors of all texts; call the embedder at most once, with the new texts.

        New vectors are stored before this method returns, so that a crash afterwards loses none.
        If another call is embedding one of the texts, this call waits for its result.
        """
        import numpy as np

        keys = _keys(embedder, texts)
        # Chunkers may use all threads of another lane to wait for the vectors stored here.
        with self._database.threads.lane("embed"):
            vectors, count = await self._embedded(embedder, dict(zip(keys, texts, strict=True)))
        return Embedded(np.stack([vectors[key] for key in keys]), count, len(texts) - count)

    def vectors(self, embedder: Embedder, texts: Sequence[str]) -> Matrix:
        """Return the vectors of all texts to a chunker, which runs in a thread."""
        embedding: Any = self.embed(embedder, texts)
        embedded: Embedded = finish(embedding)
        return embedded.vectors

    async def _embedded(
        self, embedder: Embedder, by_key: Mapping[str, str]
    ) -> tuple[dict[str, Vector], int]:
        """Return vectors by key, and the number of new ones."""
        vectors: dict[str, Vector] = {}
        count = 0
        while missing := [key for key in by_key if key not in vectors]:
            seen = self._written
            vectors |= await call(self._read, missing)
            ours, theirs = self._claim([key for key in missing if key not in vectors], seen)
            if ours:
                new = {key: by_key[key] for key in ours}
                vectors |= await self._embed_new(embedder, new, vectors)
                count += len(new)
            for other in theirs:
                await asyncio.wait([asyncio.wrap_future(other)])  # if it failed, we try
        return vectors, count

    def _claim(self, keys: Sequence[str], seen: int) -> tuple[list[str], set[Future[None]]]:
        """Return the keys that this call embeds, and the calls that it has to wait for.

        Nothing is claimed if vectors were written since the keys were looked up.
        """
        with self._lock:
            theirs = {self._coming[key] for key in keys if key in self._coming}
            if self._written != seen:
                return [], theirs
            ours = [key for key in keys if key not in self._coming]
            coming: Future[None] = Future()
            self._coming |= dict.fromkeys(ours, coming)
            return ours, theirs

    async def _embed_new(
        self, embedder: Embedder, new: Mapping[str, str], cached: Mapping[str, Vector]
    ) -> dict[str, Vector]:
        try:
            matrix = await embed_documents(embedder, list(new.values()))
            others = {len(vector) for vector in cached.values()} - {matrix.shape[1]}
            if others:
                raise EmbedderError(
                    f"embedder {embedder.fingerprint} returned vectors of dimension "
                    f"{matrix.shape[1]}, but earlier ones have dimension {others.pop()}; "
                    "if its model has changed, declare the new model under its own name"
                )
            fresh = dict(zip(new, matrix, strict=True))
            await call(self._write, fresh)
            return fresh
        finally:
            with self._lock:
                self._written += 1
                (coming,) = {self._coming.pop(key) for key in new}
            coming.set_result(None)

    def missing(self, embedder: Embedder, texts: Sequence[str]) -> dict[str, str]:
        """Return the texts that are not cached, each once, by key.

        The lookup does not count as a use of cached vectors, and writes nothing.
        """
        by_key = dict(zip(_keys(embedder, texts), texts, strict=True))
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
        while count := await call(self._trim_some):
            evicted += count
        return evicted

    @property
    def _today(self) -> int:
        """The current day, in days since 1970."""
        return int(self._clock() // _SECONDS_PER_DAY)

    def _read(self, keys: Iterable[str]) -> dict[str, Vector]:
        import numpy as np

        # A damaged vector counts as missing: its text is embedded again and the row replaced.
        rows = [row for row in self._rows("key, vector, used_on, size", keys) if _is_sound(*row)]
        today = self._today
        self._note(key for key, _, used_on, _ in rows if used_on < today)
        return {key: np.frombuffer(vector, dtype="<f4") for key, vector, *_ in rows}

    def _rows(self, columns: str, keys: Iterable[str]) -> list[Any]:
        query = f"select {columns} from catalog_embeddings where key in (:*keys)"
        with self._database.reading() as sql:
            return sql.run(query, keys=list(keys))

    def _write(self, vectors: Mapping[str, Vector]) -> None:
        shared = {"created_at": self._clock(), "used_on": self._today}
        rows = [
            {"key": key, "vector": blob, "size": len(blob), **shared}
            # Sorted, because two processes that store the same texts could deadlock otherwise.
            for key, blob in sorted((key, _as_blob(vector)) for key, vector in vectors.items())
        ]
        with self._database.writing() as sql:
            sql.insert("catalog_embeddings", rows, _PUT_AGAIN)

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

    def _trim_some(self) -> int:
        self._save()
        if self._max_bytes is None:
            return 0
        with self._database.reading() as sql:
            if _bytes_of_all(sql) <= self._max_bytes:
                return 0
        with self._alone() as sql:
            # Read again: another process may have evicted vectors in the meantime.
            excess = _bytes_of_all(sql) - self._max_bytes
            going: list[str] = []
            for key, size in sql.run(_OLDEST, limit=_GOING_AT_ONCE):
                if excess <= 0:
                    break
                going.append(key)
                excess -= size if type(size) is int else 0  # a damaged row is evicted too
            sql.run("delete from catalog_embeddings where key in (:*going)", going=going)
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


def _is_sound(_: Any, vector: Any, used_on: Any, size: Any) -> bool:
    import numpy as np

    if not isinstance(vector, bytes) or (type(used_on), type(size)) != (int, int):
        return False
    if len(vector) != size or size % 4:
        return False
    return bool(np.isfinite(np.frombuffer(vector, dtype="<f4")).all())


def _as_blob(vector: Vector) -> bytes:
    blob: bytes = vector.astype("<f4").tobytes()
    return blob


def _keys(embedder: Embedder, texts: Iterable[str]) -> list[str]:
    made_by = embedder.fingerprint
    # The same model name may stand for another model at another address. The check of an ingest
    # covers one index only.
    owner = [made_by.key, made_by.address] if made_by.address else [made_by.key]
    return [digest(*owner, text) for text in texts]


def _bytes_of_all(sql: Sql) -> int:
    return int(sql.run("select coalesce(sum(size), 0) from catalog_embeddings")[0][0])
