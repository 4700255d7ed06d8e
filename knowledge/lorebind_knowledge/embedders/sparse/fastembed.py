"""Sparse models from the Hugging Face hub, run by fastembed on this machine: SPLADE, BM42."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from lorebind_config.declarations.embedders import SparseEmbedderBase
from lorebind_config.errors import EmbedderError
from lorebind_knowledge.embedders.base import Fingerprint
from lorebind_knowledge.embedders.sparse.base import SparseEmbedder, from_indices
from lorebind_knowledge.hub_models.fastembed_models import load, sparse_model
from lorebind_knowledge.hub_models.settings import ListedModelSettings, models_folder
from lorebind_knowledge.hub_models.snapshot import Snapshot
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.plumbing.run_once import PerProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_config.reading.make_part import PartEnvironment
    from lorebind_knowledge.hub_models.fastembed_models import HubModel
    from lorebind_knowledge.records import SparseVector

_OF_PIECES = ("SpladePP", "IfSplade")
"""Classes of fastembed whose ids are those of word pieces; the ids of others are hashes."""


class FastembedSparseEmbedderDeclaration(SparseEmbedderBase, ListedModelSettings):
    """A sparse model from the Hugging Face hub on this machine, downloaded at its first use."""

    provider: Literal["fastembed"] = Field(description="Downloads a model and runs it here.")
    batch_size: int = Field(64, ge=1, le=1024, description="Texts per call.")


Declaration = FastembedSparseEmbedderDeclaration


def make(
    declaration: FastembedSparseEmbedderDeclaration, environment: PartEnvironment
) -> SparseEmbedder:
    """Make the embedder without downloading the model yet.

    Raises:
        EmbedderError: the model is not listed.
    """
    model = sparse_model(declaration.model)
    cache = models_folder(environment.fill(declaration.cache_dir), environment.root)
    return FastembedSparseEmbedder(
        model,
        Snapshot(model, declaration.revision, cache, EmbedderError),
        batch_size=declaration.batch_size,
        threads=declaration.threads,
    )


class FastembedSparseEmbedder(SparseEmbedder):
    """A hub model run by fastembed. Thread-safe; downloads and loads it at the first call."""

    languages = frozenset({"en"})  # of all models that fastembed lists

    def __init__(
        self, model: HubModel, snapshot: Snapshot, *, batch_size: int, threads: int | None
    ) -> None:
        self.batch_size = batch_size
        self._model, self._snapshot, self._threads = model, snapshot, threads
        self._loaded = PerProcess(self._load)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """The model's identity; asks the hub for the commit if this machine does not know it."""
        model = self._model
        revision = f"{model.repository}@{self._snapshot.commit}/{model.file}"
        return Fingerprint("fastembed", model.name, revision, normalised=False)

    async def embed_documents(self, texts: Sequence[str]) -> list[SparseVector]:
        await self._snapshot.fetch()
        return await call(self._embed_documents, texts)

    async def embed_query(self, text: str) -> SparseVector:
        await self._snapshot.fetch()
        return await call(self._embed_query, text)

    def terms(self, ids: Sequence[int]) -> list[str]:
        inner = self._loaded.get().model
        if type(inner).__name__ not in _OF_PIECES:
            return ["" for _ in ids]
        return [inner.tokenizer.id_to_token(int(number)) or "" for number in ids]

    def _embed_documents(self, texts: Sequence[str]) -> list[SparseVector]:
        # One text per run: each token of a batch has a float for each term of the vocabulary.
        rows = self._loaded.get().passage_embed(list(texts), batch_size=1)
        return [from_indices(row.indices, row.values) for row in rows]

    def _embed_query(self, text: str) -> SparseVector:
        (row,) = self._loaded.get().query_embed(text)
        return from_indices(row.indices, row.values)

    def _load(self) -> Any:
        return load("SparseTextEmbedding", self._model, self._snapshot.get(), self._threads)
