"""Lorebind's local all-MiniLM-L6-v2 for the other libraries, so that all have the same vectors.

A library is imported only for its own app: the others may be missing.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.embedders.langchain_embeddings import LorebindEmbeddings
from lorebind_knowledge.embedders.local import LocalEmbedder

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings


def langchain_embeddings() -> Embeddings:
    return LorebindEmbeddings(LocalEmbedder())


def llama_index_embeddings() -> Any:
    from llama_index.core.base.embeddings.base import BaseEmbedding

    inner = langchain_embeddings()

    class Adapter(BaseEmbedding):  # type: ignore[misc]  # it is not installed where types are checked
        def _get_text_embedding(self, text: str) -> list[float]:
            return inner.embed_documents([text])[0]

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return inner.embed_documents(texts)

        def _get_query_embedding(self, query: str) -> list[float]:
            return inner.embed_query(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return inner.embed_query(query)

    return Adapter()


if find_spec("haystack"):
    from dataclasses import replace

    from haystack import Document, component

    @component
    class HaystackTextEmbedder:
        @component.output_types(embedding=list[float])
        def run(self, text: str) -> dict[str, Any]:
            return {"embedding": langchain_embeddings().embed_query(text)}

    @component
    class HaystackDocumentEmbedder:
        @component.output_types(documents=list[Document])
        def run(self, documents: list[Document]) -> dict[str, Any]:
            vectors = langchain_embeddings().embed_documents([doc.content for doc in documents])
            pairs = zip(documents, vectors, strict=True)
            return {"documents": [replace(doc, embedding=vector) for doc, vector in pairs]}
