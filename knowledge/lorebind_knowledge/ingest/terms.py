"""The terms of a sparse embedder in an ingest: for new passages, and for those that lack them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from lorebind_config.errors import LorebindError
from lorebind_knowledge.index.adding_terms import (
    add_terms,
    bare_texts,
    begin_terms,
    complete_terms,
    has_terms,
    is_of,
    passages_without_terms,
)
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.catalog.indexes import IndexEntry
    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase
    from lorebind_knowledge.records import SparseVector


class TermsOfRun:
    """Gives terms to the passages of one ingest."""

    def __init__(self, kb: IndexedKnowledgeBase, lease: Lease, *, partial: bool) -> None:
        """
        Args:
            kb: the knowledge base.
            lease: the writer's.
            partial: whether only some documents are read; an index without terms stays so then.
        """
        self._kb, self._lease, self._partial = kb, lease, partial
        self._sparse = kb.sparse
        self.count = 0
        """The number of passages that got terms."""
        calls = kb.catalog.embeddings.most_calls(kb.sparse) if kb.sparse else 1
        self._calls = asyncio.Semaphore(calls)
        self._unknown: Counter[str] = Counter()
        """The number of passages by language that the sparse embedder does not know."""
        self._added = 0
        self._stopped = False
        """Whether a batch has failed or was cancelled, so that no other may call the embedder."""

    async def begin(self, index: IndexEntry) -> IndexEntry:
        """Drop the terms of another sparse embedder, and return the index for those of this one."""
        fingerprint = self._sparse.fingerprint if self._sparse else None
        if self._partial:
            self._sparse = self._sparse if is_of(index.manifest, fingerprint) else None
            return index
        return await call(begin_terms, self._kb.index, self._lease, index, fingerprint)

    async def embed(self, texts: Sequence[tuple[str, str]]) -> Sequence[SparseVector | None]:
        """Return the terms of texts, each with its language; None without a sparse embedder.

        A text has no terms in a language that the sparse embedder does not know.
        """
        sparse = self._sparse
        if sparse is None:
            return [None] * len(texts)
        readable = [text for text, language in texts if self._knows(language)]
        self._unknown.update(language for _, language in texts if not self._knows(language))
        async with self._calls:
            if self._stopped:
                raise asyncio.CancelledError
            try:
                embedded, *_ = await self._kb.catalog.embeddings.embed_sparse(sparse, readable)
            except (LorebindError, asyncio.CancelledError):
                self._stopped = True
                raise
        self.count += len(readable)
        vectors = iter(embedded)
        return [next(vectors) if self._knows(lang) else no_terms() for _, lang in texts]

    async def complete(self, index: IndexEntry) -> IndexEntry:
        """Give terms to all passages that lack them, and return the index."""
        sparse = self._sparse
        if sparse is None or has_terms(index.manifest, sparse):
            return index
        self._added = await self._add_missing(index, sparse.batch_size)
        return await call(complete_terms, self._kb.index, self._lease, index)

    @property
    def notices(self) -> list[str]:
        """Messages for the operator."""
        notices = []
        if self._added:
            notices.append(f"{self._added} passages that were indexed before have terms now")
        if self._unknown and self._sparse:
            languages = ", ".join(f"{lang} {count}" for lang, count in self._unknown.most_common())
            notices.append(
                f"passages in languages that {self._sparse.fingerprint} does not know have no "
                f"terms: {languages}"
            )
        return notices

    async def _add_missing(self, index: IndexEntry, batch_size: int) -> int:
        kb = self._kb
        numbers = await call(passages_without_terms, kb.index, index)
        for start in range(0, len(numbers), batch_size):
            texts = await call(bare_texts, kb.index, index, numbers[start : start + batch_size])
            vectors = await self.embed([(text.text, text.language) for text in texts.values()])
            uris = {number: text.uri for number, text in texts.items()}
            terms = {
                number: vector
                for number, vector in zip(texts, vectors, strict=True)
                if vector is not None
            }
            await call(add_terms, kb.index, self._lease, index, uris, terms)
        return len(numbers)

    def _knows(self, language: str) -> bool:
        languages = self._sparse.languages if self._sparse else None
        return languages is None or not language or language in languages


def count_missing(kb: IndexedKnowledgeBase, index: IndexEntry) -> int:
    """Return the number of passages of an index to which the next ingest gives terms."""
    if kb.sparse is None or has_terms(index.manifest, kb.sparse):
        return 0
    if index.manifest.sparse_key == kb.sparse.fingerprint.key:
        return len(passages_without_terms(kb.index, index))
    return kb.index.compare(index).live


def no_terms() -> SparseVector:
    import numpy as np

    from lorebind_knowledge.records import SparseVector

    return SparseVector(np.zeros(0, np.int64), np.zeros(0, np.float32))
