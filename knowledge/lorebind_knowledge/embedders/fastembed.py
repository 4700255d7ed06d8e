"""Embedding models from the Hugging Face hub, run by fastembed on this machine.

Fastembed (https://github.com/qdrant/fastembed) ships a list of models with their pooling. It adds
no prefixes to questions and passages; only jina-embeddings-v3 receives its task.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from lorebind_config.declarations.base import Fault, RefusedError
from lorebind_config.declarations.embedders import EmbedderBase
from lorebind_config.errors import EmbedderError
from lorebind_knowledge.embedders.base import Embedder, Fingerprint
from lorebind_knowledge.hub_models.fastembed_models import Pooling, embedding_model, load
from lorebind_knowledge.hub_models.settings import HubModelSettings, models_folder
from lorebind_knowledge.hub_models.snapshot import Snapshot
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.plumbing.run_once import PerProcess
from lorebind_knowledge.plumbing.tokenizing import encodable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_config.reading.make_part import PartEnvironment
    from lorebind_knowledge.hub_models.fastembed_models import HubModel
    from lorebind_knowledge.records import Matrix, Vector

ROWS_PER_RUN = 8
"""Number of texts per run of the graph. More texts only cost more memory."""


_SEARCH = "Represent this sentence for searching relevant passages: "


_PREFIXES = {
    "baai/bge-small-zh-v1.5": ("为这个句子生成表示以用于检索相关文章：", ""),
    "baai/bge-": (_SEARCH, ""),
    "mixedbread-ai/mxbai-embed-large-v1": (_SEARCH, ""),
    "snowflake/snowflake-arctic-embed-": (_SEARCH, ""),
    "intfloat/multilingual-e5-": ("query: ", "passage: "),
    "nomic-ai/nomic-embed-text-v1": ("search_query: ", "search_document: "),
    "google/embeddinggemma-300m": ("task: search result | query: ", "title: none | text: "),
    "qwen/qwen3-embedding-": (
        "Instruct: Given a web search query, retrieve relevant passages that answer the query\n"
        "Query:",
        "",
    ),
}
"""The prefixes that models were trained with for questions and passages, from their model cards,
by the start of a model's name; the first match counts. Without its prefixes a model finds less.
Models of fastembed's list that are not named here need none."""


class FastembedEmbedderDeclaration(EmbedderBase, HubModelSettings):
    """A model from the Hugging Face hub on this machine, downloaded at its first use."""

    provider: Literal["fastembed"] = Field(description="Downloads a model and runs it here.")
    pooling: Pooling = Field(
        "mean", description="With `file`: how the token vectors of a text become one vector."
    )
    query_prefix: str | None = Field(
        None,
        description="Text to put before each question. By default the prefix that the model was "
        "trained with, if Lorebind knows it.",
    )
    document_prefix: str | None = Field(
        None,
        description="Text to put before each passage. The default is chosen as for `query_prefix`.",
    )
    batch_size: int = Field(64, ge=1, le=1024, description="Texts per call.")

    @model_validator(mode="after")
    def _pooling_is_of_a_file(self) -> FastembedEmbedderDeclaration:
        if self.file is None and "pooling" in self.model_fields_set:
            hint = "omit it, fastembed knows the pooling of the models that it lists"
            raise RefusedError([Fault("pooling is given without file", hint, ("pooling",))])
        return self


Declaration = FastembedEmbedderDeclaration


def make(declaration: FastembedEmbedderDeclaration, environment: PartEnvironment) -> Embedder:
    """Make the embedder without downloading the model yet.

    Raises:
        EmbedderError: the model is not listed.
    """
    model = embedding_model(declaration.model, declaration.file, declaration.pooling)
    query, document = prefixes_of(model.name) if declaration.file is None else ("", "")
    cache = models_folder(environment.fill(declaration.cache_dir), environment.root)
    return FastembedEmbedder(
        model,
        Snapshot(model, declaration.revision, cache, EmbedderError),
        query_prefix=query if declaration.query_prefix is None else declaration.query_prefix,
        document_prefix=(
            document if declaration.document_prefix is None else declaration.document_prefix
        ),
        batch_size=declaration.batch_size,
        threads=declaration.threads,
    )


def prefixes_of(model: str) -> tuple[str, str]:
    """Return the prefixes for a question and for a passage; both are empty if unknown."""
    name = model.lower()
    return next(
        (prefixes for begins, prefixes in _PREFIXES.items() if name.startswith(begins)), ("", "")
    )


class FastembedEmbedder(Embedder):
    """A hub model run by fastembed. Thread-safe; downloads and loads it at the first call."""

    def __init__(
        self,
        model: HubModel,
        snapshot: Snapshot,
        *,
        query_prefix: str,
        document_prefix: str,
        batch_size: int,
        threads: int | None,
    ) -> None:
        self.batch_size = batch_size
        self._model, self._snapshot = model, snapshot
        self._query_prefix, self._document_prefix = query_prefix, document_prefix
        self._threads = threads
        self._loaded = PerProcess(self._load)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """The model's identity; asks the hub for the commit if this machine does not know it."""
        model = self._model
        return Fingerprint(
            "fastembed",
            model.name,
            f"{model.repository}@{self._snapshot.commit}/{model.file}",
            model.dimension,
            document_prefix=self._document_prefix,
            query_prefix=self._query_prefix,
        )

    async def embed_documents(self, texts: Sequence[str]) -> Matrix:
        await self._snapshot.fetch()
        return await call(self._embed_documents, texts)

    async def embed_query(self, text: str) -> Vector:
        await self._snapshot.fetch()
        return await call(self._embed_query, text)

    def count_truncated(self, texts: Sequence[str]) -> int:
        if not texts:
            return 0
        tokenizer = self._loaded.get().model.tokenizer
        encodings = tokenizer.encode_batch([self._document_prefix + encodable(t) for t in texts])
        return sum(bool(encoding.overflowing) for encoding in encodings)

    def _embed_documents(self, texts: Sequence[str]) -> Matrix:
        import numpy as np

        # Texts of similar length together, because a run is padded to its longest.
        by_length = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        inputs = [self._document_prefix + texts[row] for row in by_length]
        rows = list(self._loaded.get().passage_embed(inputs, batch_size=ROWS_PER_RUN))
        vectors = np.empty((len(texts), len(rows[0])), dtype=np.float32)
        vectors[by_length] = rows
        return _of_unit_length(vectors)

    def _embed_query(self, text: str) -> Vector:
        import numpy as np

        (row,) = self._loaded.get().query_embed(self._query_prefix + text)
        vector: Vector = _of_unit_length(np.asarray([row], dtype=np.float32))[0]
        return vector

    def _load(self) -> Any:
        return load("TextEmbedding", self._model, self._snapshot.get(), self._threads)


def _of_unit_length(vectors: Matrix) -> Matrix:
    """Scale vectors to length 1 in place, which not all models do; zero vectors stay zero."""
    import numpy as np

    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    np.divide(vectors, lengths, out=vectors, where=lengths > 0)
    return vectors
