"""The embedding cache: a text is embedded once, even if several knowledge bases contain it."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lorebind_config.errors import EmbedderError
from lorebind_config.namespace import digest
from lorebind_knowledge.catalog.eviction import LruEviction
from lorebind_knowledge.embedders.base import embed_documents
from lorebind_knowledge.plumbing.bridge import call, finish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lorebind_knowledge.database.databases import Database
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.records import Matrix, Vector

# Two ingests may embed the same text; either result may stay, as both are equally good.
_PUT_AGAIN = (
    "on conflict (key) do update set vector = excluded.vector,"
    " created_at = excluded.created_at, used_on = excluded.used_on, size = excluded.size"
)


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
            max_bytes: maximum size of all vectors after `trim`; None means no limit.
            clock: returns the time in seconds since 1970.
        """
        self._database = database
        self._clock = clock
        self._recency = LruEviction(database, max_bytes, clock)
        self._lock = threading.Lock()
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
        self, embedder: Embedder, new: Mapping[str, str], known: Mapping[str, Vector]
    ) -> dict[str, Vector]:
        try:
            matrix = await embed_documents(embedder, list(new.values()))
            others = {len(vector) for vector in known.values()} - {matrix.shape[1]}
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
        known = {key for (key,) in self._rows("key", by_key)}
        return {key: text for key, text in by_key.items() if key not in known}

    async def trim(self) -> int:
        """Evict the least recently used vectors until the cache is within its size limit.

        Call it when there is time, for example at the end of an ingest. Vectors that were already
        returned stay valid. A call that is reading an evicted vector embeds its text again.

        Returns:
            the number of evicted vectors.

        Raises:
            StoreError: the catalog cannot be written.
        """
        return await self._recency.trim()

    def _read(self, keys: Iterable[str]) -> dict[str, Vector]:
        import numpy as np

        # A damaged vector counts as missing: its text is embedded again and the row replaced.
        rows = [row for row in self._rows("key, vector, used_on, size", keys) if _is_sound(*row)]
        today = self._recency.today
        self._recency.note(key for key, _, used_on, _ in rows if used_on < today)
        return {key: np.frombuffer(vector, dtype="<f4") for key, vector, *_ in rows}

    def _rows(self, columns: str, keys: Iterable[str]) -> list[Any]:
        query = f"select {columns} from catalog_embeddings where key in (:*keys)"
        with self._database.reading() as sql:
            return sql.run(query, keys=list(keys))

    def _write(self, vectors: Mapping[str, Vector]) -> None:
        shared = {"created_at": self._clock(), "used_on": self._recency.today}
        rows = [
            {"key": key, "vector": blob, "size": len(blob), **shared}
            # Sorted, because two processes that store the same texts could deadlock otherwise.
            for key, blob in sorted((key, _as_blob(vector)) for key, vector in vectors.items())
        ]
        with self._database.writing() as sql:
            sql.insert("catalog_embeddings", rows, _PUT_AGAIN)


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
