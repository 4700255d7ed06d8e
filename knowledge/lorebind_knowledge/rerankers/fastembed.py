"""Cross-encoders from the Hugging Face hub, run by fastembed on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from lorebind_config.declarations.retrieval import RerankerBase
from lorebind_config.errors import RerankerError
from lorebind_knowledge.hub_models.fastembed_models import load, reranking_model
from lorebind_knowledge.hub_models.settings import HubModelSettings, models_folder
from lorebind_knowledge.hub_models.snapshot import Snapshot
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.plumbing.run_once import PerProcess
from lorebind_knowledge.plumbing.tokenizing import encodable
from lorebind_knowledge.rerankers.base import Reranker, logistic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_config.reading.make_part import PartEnvironment
    from lorebind_knowledge.hub_models.fastembed_models import HubModel


class FastembedRerankDeclaration(RerankerBase, HubModelSettings):
    """A cross-encoder from the Hugging Face hub on this machine, downloaded at its first use."""

    provider: Literal["fastembed"] = Field(
        description="Downloads a cross-encoder and runs it here."
    )
    batch_size: int = Field(8, ge=1, le=256, description="Passages per run of the model.")


Declaration = FastembedRerankDeclaration


def make(declaration: FastembedRerankDeclaration, environment: PartEnvironment) -> Reranker:
    """Make the reranker without downloading the model yet.

    Raises:
        RerankerError: the model is not listed.
    """
    model = reranking_model(declaration.model, declaration.file)
    cache = models_folder(environment.fill(declaration.cache_dir), environment.root)
    return FastembedReranker(
        model,
        Snapshot(model, declaration.revision, cache, RerankerError),
        batch_size=declaration.batch_size,
        threads=declaration.threads,
    )


class FastembedReranker(Reranker):
    """A hub model run by fastembed. Thread-safe; downloads and loads it at the first call."""

    def __init__(
        self,
        model: HubModel,
        snapshot: Snapshot,
        *,
        batch_size: int,
        threads: int | None,
    ) -> None:
        self._model, self._snapshot = model, snapshot
        self._batch_size, self._threads = batch_size, threads
        self._loaded = PerProcess(self._load)

    async def rerank(self, question: str, texts: Sequence[str]) -> Sequence[float | None]:
        await self._snapshot.fetch()
        return await call(self._rerank, question, texts)

    def _rerank(self, question: str, texts: Sequence[str]) -> Sequence[float | None]:
        by_length = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        passages = [encodable(texts[row]) for row in by_length]
        encoder = self._loaded.get()
        logits = encoder.rerank(encodable(question), passages, batch_size=self._batch_size)
        figures: list[float | None] = [None] * len(texts)
        for row, logit in zip(by_length, logits, strict=True):
            figures[row] = logistic(logit)
        return figures

    def _load(self) -> Any:
        encoder = load("TextCrossEncoder", self._model, self._snapshot.get(), self._threads)
        (logits, *_) = encoder.model.model.get_outputs()
        classes = logits.shape[1] if len(logits.shape) == 2 else None
        if isinstance(classes, int) and classes != 1:  # fastembed would use the first as score
            raise RerankerError(
                f"the model {self._model.name} returns {classes} scores per pair; expected 1: "
                "is it a cross-encoder? provider: onnx accepts one with the classes "
                "'irrelevant' and 'relevant'"
            )
        return encoder
