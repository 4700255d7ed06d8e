"""The shared model as `Embeddings` of LangChain, which LangChain and Lorebind use.

The folders of the other peers have an `embedding.py` of their own, which replaces this file.
"""

from langchain_core.embeddings import Embeddings
from minilm import Model


class MiniLM(Embeddings):
    def __init__(self) -> None:
        self._model = Model()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self._model.documents(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        return self._model.query(text).tolist()
