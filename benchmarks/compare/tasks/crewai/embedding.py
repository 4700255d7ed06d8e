"""The shared model as a custom embedder of CrewAI."""

import numpy as np
from crewai.rag.embeddings.providers.custom.custom_provider import CustomProvider
from crewai.rag.embeddings.providers.custom.embedding_callable import CustomEmbeddingFunction
from minilm import Model

MODEL = Model()


class MiniLM(CustomEmbeddingFunction):
    def __init__(self) -> None:
        pass

    def __call__(self, input: list[str]) -> list[np.ndarray]:  # noqa: A002  # Chroma's name
        return list(MODEL.documents(input))

    def embed_query(self, input: list[str]) -> list[np.ndarray]:  # noqa: A002  # as above
        return [MODEL.query(text) for text in input]

    @staticmethod
    def name() -> str:
        return "minilm"

    def get_config(self) -> dict[str, str]:
        return {}

    @staticmethod
    def build_from_config(config: dict[str, str]) -> "MiniLM":
        return MiniLM()


EMBEDDER = CustomProvider(embedding_callable=MiniLM)
