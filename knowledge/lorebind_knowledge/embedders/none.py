"""No vectors: the embedder of knowledge bases that are searched by words and terms only.

It gives every text the same vector, of one dimension. So an index without vectors is written,
counted and repaired by the same code as any other, and its vectors cost next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from lorebind_config.declarations.embedders import NONE, EmbedderBase
from lorebind_config.declarations.retrieval import Level
from lorebind_knowledge.embedders.base import NO_VECTORS, Embedder, Fingerprint, TokenCount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_config.reading.make_part import PartEnvironment
    from lorebind_knowledge.records import Matrix, Vector


class NoEmbedderDeclaration(EmbedderBase):
    """No vectors: searches by words and terms only, and an ingest takes a fifth of the time."""

    makes_vectors: ClassVar[bool] = False
    sparse_default: ClassVar[str] = "local"

    provider: Literal["none"] = Field(description="Makes no vectors; needs no model.")
    weak_below: Level = Field(
        0.3,
        description="The `coverage` that the best passage usually reaches if it answers the "
        "question. Below it, a match is weak. null: no match is weak.",
    )

    @property
    def known_dimension(self) -> int:
        return 1


Declaration = NoEmbedderDeclaration


def make(declaration: NoEmbedderDeclaration, environment: PartEnvironment) -> Embedder:
    return NoEmbedder()


class NoEmbedder(Embedder):
    """Gives every text the vector [1.0]."""

    batch_size = 1024

    @property
    def fingerprint(self) -> Fingerprint:
        return NO_VECTORS

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        import numpy as np

        return np.ones((len(texts), 1), np.float32)

    def embed_query(self, text: str) -> Vector:
        vector: Vector = self.embed_documents([text])[0]
        return vector

    def count_tokens(self, texts: Sequence[str]) -> TokenCount:
        return TokenCount(0, NONE, exact=True)
