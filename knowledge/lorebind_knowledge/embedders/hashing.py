"""A deterministic bag-of-words embedder: fast, reproducible, and lexical rather than semantic.

Signed feature hashing (Weinberger et al., 2009, https://arxiv.org/abs/0902.2206) over lower-cased
words, with the square root of the counts and unit length. For tests and dry runs.
"""

from __future__ import annotations

import zlib
from collections import Counter
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from lorebind_config.declarations.base import Settings
from lorebind_config.declarations.embedders import EmbedderBase, WeakBelow
from lorebind_knowledge.embedders.base import Embedder, Fingerprint
from lorebind_knowledge.text.splitting import words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_config.reading.make_part import PartEnvironment
    from lorebind_knowledge.records import Matrix, Vector


class HashingEmbedderConfig(Settings):
    """Settings of the hashing embedder."""

    dimension: int = Field(256, ge=8, le=8192, description="Length of the vectors.")
    batch_size: int = Field(1024, ge=1, le=8192, description="Texts per call.")


class HashingEmbedderDeclaration(EmbedderBase):
    """A deterministic bag of words, for tests: lexical, not semantic."""

    provider: Literal["hashing"] = Field(description="Counts words; needs no model.")
    weak_below: WeakBelow = 0.1
    config: HashingEmbedderConfig = Field(
        default_factory=HashingEmbedderConfig, description="The shape of the vectors."
    )

    @property
    def known_dimension(self) -> int:
        return self.config.dimension


Declaration = HashingEmbedderDeclaration


def make(declaration: HashingEmbedderDeclaration, environment: PartEnvironment) -> Embedder:
    config = declaration.config
    return HashingEmbedder(dimension=config.dimension, batch_size=config.batch_size)


class HashingEmbedder(Embedder):
    """Texts that share words get similar vectors; other texts get nearly orthogonal ones."""

    def __init__(self, *, dimension: int = 256, batch_size: int = 1024) -> None:
        self._dimension = dimension
        self.batch_size = batch_size

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint("hashing", "bag-of-words", "2", self._dimension)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        import numpy as np

        vectors: Matrix = np.zeros((len(texts), self._dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            for word, count in Counter(words_of(text)).items():
                code = zlib.crc32(word.encode())
                sign = 1.0 if code & 1 else -1.0
                vectors[row, (code >> 1) % self._dimension] += sign * count**0.5
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, lengths, out=vectors, where=lengths > 0)
        return vectors

    def embed_query(self, text: str) -> Vector:
        vector: Vector = self.embed_documents([text])[0]
        return vector
