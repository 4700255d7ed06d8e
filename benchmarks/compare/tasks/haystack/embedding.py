"""The shared model as the two components for embeddings of Haystack."""

from dataclasses import replace

from haystack import Document, component
from minilm import Model

MODEL = Model()


@component
class MiniLMTextEmbedder:
    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, list[float]]:
        return {"embedding": MODEL.query(text).tolist()}


@component
class MiniLMDocumentEmbedder:
    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        vectors = MODEL.documents([document.content for document in documents]).tolist()
        pairs = zip(documents, vectors, strict=True)
        return {"documents": [replace(document, embedding=vector) for document, vector in pairs]}
