"""The embedding cache: a text is embedded once, whichever knowledge bases hold it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select

from lorebind_knowledge.bridge import call
from lorebind_knowledge.catalog.database import insert_of
from lorebind_knowledge.catalog.schema import embeddings
from lorebind_knowledge.embedders.base import embed_documents
from lorebind_knowledge.errors import EmbedderError
from lorebind_knowledge.identity import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lorebind_knowledge.catalog.database import Database
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.records import Matrix, Vector

_KEYS_PER_QUERY = 500


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors of a batch, and what they cost."""

    vectors: Matrix
    texts_embedded: int
    cache_hits: int


class EmbeddingCache:
    """Vectors by SHA-256 over (embedder fingerprint, text), kept in the catalog."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def embed(self, embedder: Embedder, texts: Sequence[str]) -> Embedded:
        """Vectors of all texts; the embedder is called once, with those that are new.

        What it returns is stored before this returns, so that a crash afterwards costs nothing.
        """
        import numpy as np

        keys = _keys(embedder, texts)
        vectors = await call(self._read, set(keys))
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in vectors}
        if new:
            matrix = await embed_documents(embedder, list(new.values()))
            fresh = dict(zip(new, matrix, strict=True))
            known = {len(vector) for vector in vectors.values()} - {matrix.shape[1]}
            if known:
                raise EmbedderError(
                    f"embedder {embedder.fingerprint} returned vectors of dimension "
                    f"{matrix.shape[1]}, and earlier ones of dimension {known.pop()}; "
                    "has its model changed? Declare the new one under its own name"
                )
            await call(self._write, fresh)
            vectors |= fresh
        hits = len(texts) - len(new)
        return Embedded(np.stack([vectors[key] for key in keys]), len(new), hits)

    def missing(self, embedder: Embedder, texts: Iterable[str]) -> set[str]:
        """The keys of the texts among these that would have to be embedded."""
        keys = set(_keys(embedder, texts))
        return keys - self._read(keys).keys()

    def _read(self, keys: Iterable[str]) -> dict[str, Vector]:
        import numpy as np

        wanted = list(keys)
        found: dict[str, Vector] = {}
        with self._database.reading() as connection:
            for first in range(0, len(wanted), _KEYS_PER_QUERY):
                some = wanted[first : first + _KEYS_PER_QUERY]
                query = select(embeddings.c.key, embeddings.c.vector).where(
                    embeddings.c.key.in_(some)
                )
                for key, blob in connection.execute(query):
                    found[key] = np.frombuffer(blob, dtype="<f4")
        return found

    def _write(self, vectors: Mapping[str, Vector]) -> None:
        now = time.time()
        rows = [
            {"key": key, "vector": vector.astype("<f4").tobytes(), "created_at": now}
            for key, vector in vectors.items()
        ]
        with self._database.writing() as connection:
            # Two ingests may embed the same text: the first to store it is as good as the second.
            put = insert_of(connection.dialect.name)(embeddings).on_conflict_do_nothing()
            connection.execute(put, rows)


def _keys(embedder: Embedder, texts: Iterable[str]) -> list[str]:
    owner = embedder.fingerprint.key
    return [digest(owner, text) for text in texts]
