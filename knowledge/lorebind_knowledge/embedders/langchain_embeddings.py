"""A Lorebind embedder as LangChain `Embeddings`; `langchain.py` is the other direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_core.embeddings import Embeddings

from lorebind_knowledge.embedders.base import embed_documents, embed_query
from lorebind_knowledge.plumbing.bridge import run

if TYPE_CHECKING:
    from lorebind_knowledge.embedders.base import Embedder


class LorebindEmbeddings(Embeddings):
    """LangChain `Embeddings` that call a Lorebind embedder, `batch_size` texts at a time.

    Raises:
        EmbedderError: the embedder failed, or did not return one finite vector per text.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = []
        for start in range(0, len(texts), self._embedder.batch_size):
            batch = texts[start : start + self._embedder.batch_size]
            vectors += (await embed_documents(self._embedder, batch)).tolist()
        return vectors

    async def aembed_query(self, text: str) -> list[float]:
        numbers: list[float] = (await embed_query(self._embedder, text)).tolist()
        return numbers

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return run(self.aembed_documents(texts))

    def embed_query(self, text: str) -> list[float]:
        return run(self.aembed_query(text))
