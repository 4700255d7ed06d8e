"""Any LangChain `Embeddings` as an embedder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.embedders.base import Embedder, Fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.embeddings import Embeddings

    from lorebind_knowledge.records import Matrix, Vector


class LangChainEmbedder(Embedder):
    """Wraps a live `Embeddings`; its asynchronous methods are used, which it always has."""

    def __init__(
        self,
        embeddings: Embeddings,
        *,
        model: str = "",
        settings: Mapping[str, Any] | None = None,
        batch_size: int = 64,
    ) -> None:
        """
        Args:
            embeddings: the object to call.
            model: what it is called in messages and manifests; the class's name when empty.
            settings: what it was configured with, secrets left out: part of its identity, since
                LangChain objects carry none.
            batch_size: texts per call.
        """
        self.batch_size = batch_size
        self._embeddings = embeddings
        self._model = model or type(embeddings).__name__
        kind = f"{type(embeddings).__module__}.{type(embeddings).__qualname__}"
        self._revision = f"{kind} {json.dumps(dict(settings or {}), sort_keys=True, default=str)}"

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint("langchain", self._model, self._revision)

    async def embed_documents(self, texts: Sequence[str]) -> Matrix:
        return await self._embeddings.aembed_documents(list(texts))  # type: ignore[return-value]  # lists of floats: made a matrix where every embedder's answer is checked

    async def embed_query(self, text: str) -> Vector:
        return await self._embeddings.aembed_query(text)  # type: ignore[return-value]  # as above
