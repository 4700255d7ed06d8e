"""The shared model as `BaseEmbedding` of LlamaIndex."""

from llama_index.core.embeddings import BaseEmbedding
from minilm import Model
from pydantic import PrivateAttr


class MiniLM(BaseEmbedding):
    _model: Model = PrivateAttr(default_factory=Model)

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._model.query(query).tolist()

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._model.documents([text])[0].tolist()

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._model.documents(texts).tolist()

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)
