"""An adapter that makes a sparse embedder from any object with LangChain's `SparseEmbeddings`.

The interface is that of `langchain_qdrant.SparseEmbeddings`: `embed_documents(texts)` and
`embed_query(text)` return objects with `indices` and `values`. Their async versions are optional.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from lorebind_config.declarations.base import Matching
from lorebind_config.declarations.embedders import SparseEmbedderBase
from lorebind_knowledge.embedders.langchain import LangChainClient, LangChainSettings, make_client
from lorebind_knowledge.embedders.sparse.base import SparseEmbedder, from_indices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_config.reading.make_part import PartEnvironment
    from lorebind_knowledge.records import SparseVector


_Code = Annotated[
    str,
    Matching("^[a-z]{2}$", "{!r} is not a language code", "expected ISO 639-1 codes such as en"),
]


class LangChainSparseEmbedderDeclaration(SparseEmbedderBase, LangChainSettings):
    """Any class with the interface of LangChain's `SparseEmbeddings`."""

    provider: Literal["langchain"] = Field(description="A SparseEmbeddings class of LangChain.")
    languages: list[_Code] | None = Field(
        None,
        description="ISO 639-1 codes of the languages that the model knows. Passages in other "
        "languages get no terms. By default it knows all languages.",
    )


Declaration = LangChainSparseEmbedderDeclaration


def make(
    declaration: LangChainSparseEmbedderDeclaration, environment: PartEnvironment
) -> SparseEmbedder:
    """Make the embedder, with retries and limits.

    Raises:
        EmbedderError: the class has not the methods of `SparseEmbeddings`.
    """
    languages = None if declaration.languages is None else frozenset(declaration.languages)
    embedder: SparseEmbedder = make_client(
        declaration,
        environment,
        partial(LangChainSparseEmbedder, languages=languages),
        "a class with the methods of LangChain's SparseEmbeddings",
        methods=("embed_documents",),
    )
    return embedder


class LangChainSparseEmbedder(LangChainClient, SparseEmbedder):
    """Wraps a live `SparseEmbeddings`, and calls its sync or async methods as the caller needs."""

    def __init__(
        self, embeddings: Any, *, languages: frozenset[str] | None = None, **settings: Any
    ) -> None:
        """
        Args:
            embeddings: the object to call.
            languages: see `SparseEmbedder`.
            settings: see `LangChainClient`.
        """
        super().__init__(embeddings, **settings)
        self.languages = languages

    async def embed_documents(self, texts: Sequence[str]) -> list[SparseVector]:
        vectors = await self._call("embed_documents", list(texts))
        return [_converted(vector) for vector in vectors]

    async def embed_query(self, text: str) -> SparseVector:
        return _converted(await self._call("embed_query", text))

    def terms(self, ids: Sequence[int]) -> list[str]:
        """Return empty names, since the interface has no method for them."""
        return ["" for _ in ids]


def _converted(vector: Any) -> SparseVector:
    return from_indices(vector.indices, vector.values)
