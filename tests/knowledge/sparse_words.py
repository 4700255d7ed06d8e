"""A sparse embedder for tests: the words of a text, and a few related ones."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from lorebind_knowledge.embedders.base import Fingerprint
from lorebind_knowledge.embedders.sparse.base import SparseEmbedder
from lorebind_knowledge.records import SparseVector
from lorebind_knowledge.text.splitting import words_of

from .bench import Bench


class SparseWords(SparseEmbedder):
    """Gives a text its words with weight 2, and related words with weight 1; records all calls."""

    languages = frozenset({"en"})

    def __init__(self, related: Mapping[str, str] | None = None, *, revision: str = "1") -> None:
        self.batch_size = 4
        self.batches: list[list[str]] = []
        self.questions: list[str] = []
        self.before_batch: Callable[[int], None] = lambda number: None
        """Called with the number of each batch, from 1; may raise."""
        self._related = dict(related or {})
        self._revision = revision
        self._names: dict[int, str] = {}

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint("words", "sparse", self._revision)

    @property
    def texts(self) -> list[str]:
        """All received texts, in order."""
        return [text for batch in self.batches for text in batch]

    def embed_documents(self, texts: Sequence[str]) -> list[SparseVector]:
        self.batches.append(list(texts))
        self.before_batch(len(self.batches))
        return list(map(self._embed, texts))

    def embed_query(self, text: str) -> SparseVector:
        self.questions.append(text)
        return self._embed(text)

    def terms(self, ids: Sequence[int]) -> list[str]:
        return [self._names.get(number, "") for number in ids]

    def _embed(self, text: str) -> SparseVector:
        weights: dict[int, float] = {}
        for word in words_of(text):
            for term, weight in ((word, 2.0), (self._related.get(word, word), 1.0)):
                number = zlib.crc32(term.encode()) >> 1
                self._names[number] = term
                weights[number] = max(weights.get(number, 0.0), weight)
        ids = np.array(sorted(weights), np.int64)
        return SparseVector(ids, np.array([weights[n] for n in ids.tolist()], np.float32))


def with_sparse(bench: Bench, sparse: SparseWords | None) -> None:
    bench.change(sparse=sparse)
