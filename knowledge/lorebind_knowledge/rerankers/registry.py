"""From a declared reranker to the object that orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_knowledge.bridge import call
from lorebind_knowledge.configuration.named_code import named_class
from lorebind_knowledge.declarations.retrieval import OnnxRerankDeclaration, RerankDeclaration
from lorebind_knowledge.errors import RerankerError
from lorebind_knowledge.redaction import said_by
from lorebind_knowledge.rerankers.base import Reranker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lorebind_knowledge.configuration import Environment
    from lorebind_knowledge.declarations.retrieval import RerankerBase


def make_reranker(declaration: RerankerBase, environment: Environment) -> Reranker:
    """The reranker that a declaration names: a compressor of LangChain, a `Reranker`, a plugin's.

    Raises:
        RerankerError: it cannot be made with the configuration given.
    """
    if isinstance(declaration, OnnxRerankDeclaration):
        return _onnx(declaration, environment)
    if not isinstance(declaration, RerankDeclaration):
        from lorebind_knowledge.rerankers.plugged import make_plugged_reranker

        return make_plugged_reranker(declaration, environment)
    from langchain_core.documents import BaseDocumentCompressor

    from lorebind_knowledge.rerankers.langchain import LangChainReranker

    kind = named_class(
        declaration,
        environment,
        "a class derived from LangChain's BaseDocumentCompressor, or with the method 'rerank'",
        BaseDocumentCompressor,
        methods=("rerank",),
        failure=RerankerError,
    )
    written: Mapping[str, Any] = declaration.config
    settings = environment.fill(dict(written))
    try:
        made = kind(**settings)
    except Exception as error:  # whatever a third party's constructor raises
        raise RerankerError(
            f"the reranker {declaration.class_path} cannot be made with the configuration given: "
            f"{said_by(error, written=written, resolved=settings)}"
        ) from error
    if isinstance(made, BaseDocumentCompressor):
        return _RedactingReranker(LangChainReranker(made), made, written, settings)
    if isinstance(made, Reranker):
        return _RedactingReranker(made, made, written, settings)
    raise RerankerError(
        f"{declaration.class_path} is neither a BaseDocumentCompressor of LangChain nor a Reranker"
    )


def _onnx(declaration: OnnxRerankDeclaration, environment: Environment) -> Reranker:
    from lorebind_knowledge.rerankers.onnx import OnnxReranker

    model_path = environment.root / environment.fill(declaration.model_path)
    written = environment.fill(declaration.tokenizer_path)
    beside = model_path.with_name("tokenizer.json")
    return OnnxReranker(
        model_path,
        beside if written is None else environment.root / written,
        max_length=declaration.max_length,
        batch_size=declaration.batch_size,
        threads=declaration.threads,
    )


class _RedactingReranker(Reranker):
    """A reranker whose exceptions are said without what its configuration was filled in with."""

    def __init__(
        self, inner: Reranker, holder: object, written: Mapping[str, Any], settings: dict[str, Any]
    ) -> None:
        self._inner, self._holder = inner, holder
        self._written, self._settings = written, settings

    async def rerank(self, question: str, texts: Sequence[str]) -> Sequence[float | None]:
        try:
            return await call(self._inner.rerank, question, texts)
        except RerankerError:
            raise
        except Exception as error:  # any provider's own exceptions, which may quote a key
            said = said_by(
                error, holder=self._holder, written=self._written, resolved=self._settings
            )
            raise RerankerError(f"the reranker failed: {said}") from error
