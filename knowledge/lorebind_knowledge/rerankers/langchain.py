"""LangChain's document compressors as rerankers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from lorebind_config.checks.named_code import named_class
from lorebind_config.declarations.retrieval import RerankerBase
from lorebind_config.declarations.values import ClassPath, ConfigMap
from lorebind_config.errors import RerankerError
from lorebind_knowledge.plumbing.bridge import call_client
from lorebind_knowledge.rerankers.base import RedactingReranker, Reranker, logistic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.documents import BaseDocumentCompressor

    from lorebind_config.reading.make_part import PartEnvironment


class RerankDeclaration(RerankerBase):
    """A second ranking of the best passages by a model that reads question and passage together."""

    templated: ClassVar[tuple[str, ...]] = ("config",)

    provider: Literal["langchain"] = Field("langchain", description="A class of LangChain.")
    class_path: ClassPath = Field(
        alias="class",
        description="A BaseDocumentCompressor of LangChain, as 'package.module:Class', in the "
        "project folder or installed.",
    )
    config: ConfigMap = Field(default_factory=dict, description="Arguments of the class, by name.")


Declaration = RerankDeclaration


def make(declaration: RerankDeclaration, environment: PartEnvironment) -> Reranker:
    """Make the reranker.

    Raises:
        RerankerError: the class is neither a compressor nor a `Reranker`.
    """
    from langchain_core.documents import BaseDocumentCompressor

    kind = named_class(
        declaration,
        environment,
        "a class derived from LangChain's BaseDocumentCompressor, or with the method 'rerank'",
        BaseDocumentCompressor,
        methods=("rerank",),
        failure=RerankerError,
    )
    reranker = inner = kind(**environment.fill(dict(declaration.config)))
    if isinstance(inner, BaseDocumentCompressor):
        reranker = LangChainReranker(inner)
    if not isinstance(reranker, Reranker):
        raise RerankerError(
            f"{declaration.class_path} is neither a BaseDocumentCompressor of LangChain nor a "
            "Reranker"
        )
    return RedactingReranker(reranker, environment, holder=inner)


class LangChainReranker(Reranker):
    """Wraps any `BaseDocumentCompressor`.

    The score is the `relevance_score` that the compressor writes into a document's metadata. If any
    score is outside 0 to 1, all pass through the logistic function. A compressor that only orders
    its documents gets scores that fall evenly from 1.
    """

    def __init__(self, compressor: BaseDocumentCompressor) -> None:
        self._compressor = compressor

    async def rerank(self, question: str, texts: Sequence[str]) -> Sequence[float | None]:
        from langchain_core.documents import Document

        documents = [Document(text, metadata={"lorebind_at": at}) for at, text in enumerate(texts)]
        compressor = self._compressor
        ranked = await call_client(
            compressor.compress_documents, compressor.acompress_documents, documents, question
        )
        figures: list[float | None] = [None] * len(texts)
        written = [document.metadata.get("relevance_score") for document in ranked]
        raw = [figure for figure in written if figure is not None]
        for place, document in enumerate(ranked):
            at = document.metadata.get("lorebind_at")
            if at is None:
                raise RerankerError(
                    f"{type(self._compressor).__name__} returns new documents instead of a "
                    "selection of the given ones; it cannot be a reranker"
                )
            complete = len(raw) == len(ranked)
            figures[at] = float(raw[place]) if complete else 1 - place / len(ranked)
        scored = [figure for figure in figures if figure is not None]
        if any(not 0 <= figure <= 1 for figure in scored):
            return [None if figure is None else logistic(figure) for figure in figures]
        return figures
