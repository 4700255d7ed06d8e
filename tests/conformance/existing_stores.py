"""LangChain vector stores filled as an application fills them, one for each of their metrics."""

from __future__ import annotations

import uuid
import warnings
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_postgres import PGEngine, PGVectorStore
from langchain_postgres.v2.indexes import DistanceStrategy as PgDistance
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models
from sqlalchemy.engine import make_url

from lorebind_knowledge.plumbing.bridge import finish

SIZE = 64


class Words(Embeddings):
    """Embeds texts so that shared words make them similar, without any equal similarities."""

    def __init__(self, *, long: bool = False) -> None:
        """Return vectors of different lengths if `long`, else unit vectors."""
        self.long = long

    def embed_query(self, text: str) -> list[float]:
        vector = np.random.default_rng(zlib.crc32(text.encode())).normal(0, 0.03, SIZE)
        for word in text.lower().split():
            vector[zlib.crc32(word.strip(".?").encode()) % SIZE] += 1.0
        vector /= np.linalg.norm(vector)
        figures: list[float] = (vector * (1 + len(text) % 7 if self.long else 1)).tolist()
        return figures

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


THINGS = ("keys", "invoices", "backups", "lunches", "alerts", "passwords")
WAYS = ("rotated", "sent", "stored", "served", "checked", "deleted", "printed", "signed")
TIMES = ("month", "Friday", "noon", "year", "week")
DOCUMENTS = [
    Document(
        f"The {thing} are {way} every {time}.",
        id=str(uuid.uuid5(uuid.NAMESPACE_URL, f"{thing} {way} {time}")),
        metadata={
            "source": f"{thing}.md",
            "team": "ops" if thing == "keys" else "office",
            "seldom": (thing, way, time) in {("lunches", "served", "noon"), ("alerts",) * 3},
            "number": number,
        },
    )
    for number, (thing, way, time) in enumerate(
        (thing, way, time) for thing in THINGS for way in WAYS for time in TIMES
    )
]
"""More documents than the first request of a search asks for."""


def in_memory(words: Embeddings, folder: Path, dsn: str, stack: ExitStack) -> VectorStore:
    return InMemoryVectorStore(words)


def chroma(space: str) -> Callable[..., VectorStore]:
    def make(words: Embeddings, folder: Path, dsn: str, stack: ExitStack) -> VectorStore:
        configuration: Any = {"hnsw": {"space": space}}
        path = str(folder / "chroma")
        return Chroma(
            "theirs", words, persist_directory=path, collection_configuration=configuration
        )

    return make


def faiss(metric: str, *, normalised: bool = False) -> Callable[..., VectorStore]:
    def make(words: Embeddings, folder: Path, dsn: str, stack: ExitStack) -> VectorStore:
        import faiss

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the package is unmaintained
            from langchain_community.docstore.in_memory import InMemoryDocstore
            from langchain_community.vectorstores.faiss import FAISS
            from langchain_community.vectorstores.utils import DistanceStrategy
        index = faiss.IndexFlatL2(SIZE) if metric == "EUCLIDEAN_DISTANCE" else None
        store: VectorStore = FAISS(
            words,
            index or faiss.IndexFlatIP(SIZE),
            InMemoryDocstore(),
            {},
            normalize_L2=normalised,
            distance_strategy=DistanceStrategy[metric],
        )
        return store

    return make


def postgres(distance: PgDistance) -> Callable[..., VectorStore]:
    def make(words: Embeddings, folder: Path, dsn: str, stack: ExitStack) -> VectorStore:
        url = make_url(dsn.replace("postgresql:", "postgresql+psycopg:"))
        schema = str(url.query["options"]).removeprefix("-csearch_path=").partition(",")[0]
        engine = PGEngine.from_connection_string(url)
        stack.callback(lambda: finish(engine.close()))
        engine.init_vectorstore_table("theirs", SIZE, schema_name=schema)
        return PGVectorStore.create_sync(
            engine, words, "theirs", schema_name=schema, distance_strategy=distance
        )

    return make


def qdrant(distance: models.Distance) -> Callable[..., VectorStore]:
    def make(words: Embeddings, folder: Path, dsn: str, stack: ExitStack) -> VectorStore:
        client = QdrantClient(":memory:")
        stack.callback(client.close)
        parameters = models.VectorParams(size=SIZE, distance=distance)
        client.create_collection("theirs", vectors_config=parameters)
        return QdrantVectorStore(client, "theirs", words, distance=distance)

    return make


UNIT, LONG = Words(), Words(long=True)

STORES: dict[str, tuple[Callable[..., VectorStore], Embeddings]] = {
    "in memory": (in_memory, UNIT),
    "in memory, many lengths": (in_memory, LONG),
    "chroma l2": (chroma("l2"), UNIT),
    "chroma cosine": (chroma("cosine"), UNIT),
    "chroma cosine, many lengths": (chroma("cosine"), LONG),
    "chroma ip": (chroma("ip"), UNIT),
    "faiss l2": (faiss("EUCLIDEAN_DISTANCE"), UNIT),
    "faiss l2, normalised": (faiss("EUCLIDEAN_DISTANCE", normalised=True), LONG),
    "faiss ip": (faiss("MAX_INNER_PRODUCT"), UNIT),
    "postgres cosine": (postgres(PgDistance.COSINE_DISTANCE), UNIT),
    "postgres cosine, many lengths": (postgres(PgDistance.COSINE_DISTANCE), LONG),
    "postgres l2": (postgres(PgDistance.EUCLIDEAN), UNIT),
    "postgres ip": (postgres(PgDistance.INNER_PRODUCT), UNIT),
    "qdrant cosine": (qdrant(models.Distance.COSINE), UNIT),
    "qdrant cosine, many lengths": (qdrant(models.Distance.COSINE), LONG),
    "qdrant l2": (qdrant(models.Distance.EUCLID), UNIT),
    "qdrant ip": (qdrant(models.Distance.DOT), UNIT),
}
"""Functions that create the empty stores, and the embeddings of each store."""
