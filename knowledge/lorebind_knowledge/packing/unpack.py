"""Unpacking: build the index that a pack has, in the background, and swap it in.

The new index is invisible until everything was read and checked. If the run is interrupted, the
next writer drops it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from lorebind_config.errors import LorebindError
from lorebind_knowledge.catalog.entries import unit_vectors
from lorebind_knowledge.ingest.indexes import new_manifest, publish_copy
from lorebind_knowledge.ingest.progress import Progress
from lorebind_knowledge.ingest.report import IngestReport
from lorebind_knowledge.ingest.terms import TermsOfRun
from lorebind_knowledge.packing.archive import TERMS, WORDS, PackReader
from lorebind_knowledge.plumbing.bridge import call, in_steps
from lorebind_knowledge.text import terms

if TYPE_CHECKING:
    from lorebind_knowledge.catalog.copies import CopiedChunk
    from lorebind_knowledge.catalog.indexes import Manifest
    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.index.copying import IndexCopy
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase
    from lorebind_knowledge.packing.content import PackContent, PackedDocument
    from lorebind_knowledge.records import Matrix

STRATEGY = "unpack"
"""The strategy of its runs in the ledger."""

_POSTINGS_AT_ONCE = 200_000


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that the pack's declaration has, and the one in use, if they are not equal."""

    key: str
    """The path of the setting, such as `chunking.size`."""
    packed: Any
    """The value in the pack; None if it declares none."""
    declared: Any
    """The value in use; None if the default is."""


@dataclass(slots=True)
class UnpackReport(IngestReport):
    """The results of unpacking, in the form of an ingest's."""

    embedder_before: str = ""
    """The embedder of the pack's vectors."""
    tokens_embedded: int = 0
    """Number of tokens in the texts that were embedded."""
    cost: float | None = None
    """Their cost, in the currency of the embedder's `price_per_million_tokens`; None without."""
    differences: list[Difference] = field(default_factory=list)
    """Where the declaration in use, which stays, differs from the pack's."""


async def unpack(
    kb: IndexedKnowledgeBase,
    path: Path | str | BinaryIO,
    *,
    declared: Mapping[str, Any],
    token_price: float | None = None,
    wait: bool = False,
    run_id: str | None = None,
) -> UnpackReport:
    """Replace the index of a knowledge base by that of a pack.

    Documents of the pack that were added by hand replace added documents with the same uri; other
    added documents stay, and the next ingest indexes them.

    Args:
        kb: the knowledge base.
        path: the pack, or its content as an open file.
        declared: the declaration of the knowledge base, as it is written.
        token_price: the price of embedding a million tokens, if it is known.
        wait: whether to wait for a running ingest instead of raising.
        run_id: the id of the run in events and in the report; by default a new one.

    Raises:
        UsageError: the file is no pack, is incomplete or was altered. Nothing was changed.
        IngestRunningError: an ingest is running.
        EmbedderError, StoreError: an outage. Nothing was changed.
    """
    with kb.threads.lane("ingest"):
        reader = await call(PackReader, path)
    with reader:
        # It needs NumPy, and is imported in no command that does not unpack.
        from lorebind_knowledge.packing.content import PackContent

        content = PackContent(reader, kb.id)
        report = UnpackReport(kb.id, STRATEGY, embedder_before=content.index.embedder)
        report.differences = differences(content, declared)
        async with kb.catalog.hold_lease(kb.namespace, wait=wait) as lease:
            run = _Run(kb, lease, content, report, token_price)
            return await run.execute(run_id)


class _Run:
    """One unpacking of one pack."""

    def __init__(
        self,
        kb: IndexedKnowledgeBase,
        lease: Lease,
        content: PackContent,
        report: UnpackReport,
        token_price: float | None,
    ) -> None:
        self._kb, self._lease, self._content, self._report = kb, lease, content, report
        self._token_price = token_price
        self._progress = Progress(kb, lease, report)
        self._embeds = kb.embedder.fingerprint.key != content.index.embedder_key
        """Whether another embedder has made the vectors of the pack."""
        self._copies_words = content.words_version == terms.VERSION and content.has(WORDS)
        self._calls = asyncio.Semaphore(kb.catalog.embeddings.most_calls(kb.embedder))

    async def execute(self, run_id: str | None) -> UnpackReport:
        await self._progress.carry_out(self._build, run_id)
        return self._report

    async def _build(self) -> None:
        from lorebind_knowledge.index.copying import IndexCopy

        kb, content = self._kb, self._content
        manifest = await self._manifest()
        copy = await call(IndexCopy, kb.index, self._lease, manifest, self._report.run_id)
        try:
            await self._copy_chunks(copy)
            if self._copies_words:
                await self._copy_postings(copy, WORDS)
            if manifest.sparse_key:
                await self._copy_postings(copy, TERMS)
            await call(copy.finish)
            sparse = TermsOfRun(kb, self._lease, partial=False)
            entry = await sparse.complete(await sparse.begin(copy.entry))
            self._report.terms_added = sparse.count
            self._report.notices += sparse.notices
            added = content.added_documents()
            self._report.notices += await publish_copy(kb, self._lease, entry, added)
        except BaseException:
            # After an outage, the next writer drops the rest.
            with suppress(LorebindError):
                await call(copy.drop)
            raise

    async def _manifest(self) -> Manifest:
        """Return the manifest of the new index: its vectors are the pack's, or are made here."""
        kb, packed = self._kb, self._content.index
        sparse = kb.sparse.fingerprint if kb.sparse else None
        has_terms = sparse is not None and sparse.key == packed.sparse_key
        if not (has_terms and packed.terms_complete and self._content.has(TERMS)):
            packed = replace(packed, sparse="", sparse_key="", terms_complete=True)
        if not self._embeds:
            # The pack's address stays: an ingest checks the vectors if it is another one.
            return replace(packed, embedder=str(kb.embedder.fingerprint))
        manifest = await new_manifest(kb, packed.chunker)
        return replace(
            manifest,
            sparse=packed.sparse,
            sparse_key=packed.sparse_key,
            terms_complete=packed.terms_complete,
        )

    async def _copy_chunks(self, copy: IndexCopy) -> None:
        counts, report = self._progress.counts, self._report
        counts["documents"], counts["chunks"] = self._content.documents, self._content.chunks
        async for part in in_steps(self._content.parts()):
            if isinstance(part, list):
                await call(_add_documents, copy, part)
                counts["documents_read"] += len(part)
                report.documents["added"] += len(part)
                continue
            chunks = part.chunks
            vectors = await self._embedded(chunks) if self._embeds else part.vectors
            await call(copy.add_chunks, chunks, vectors, split_words=not self._copies_words)
            counts["chunks_embedded"] += len(chunks)
            report.chunks["added"] += len(chunks)
            report.chunks["total"] += len(chunks)

    async def _embedded(self, chunks: Sequence[CopiedChunk]) -> Matrix:
        import numpy as np

        size = self._kb.embedder.batch_size
        texts = [f"{chunk.context}\n{chunk.text}" for chunk in chunks]
        batches = [texts[start : start + size] for start in range(0, len(texts), size)]
        try:
            async with asyncio.TaskGroup() as tasks:
                done = [tasks.create_task(self._embed(batch)) for batch in batches]
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group.exceptions[0].__cause__
        return unit_vectors(np.concatenate([task.result() for task in done]))

    async def _embed(self, texts: Sequence[str]) -> Matrix:
        kb, report = self._kb, self._report
        async with self._calls:
            missing = await call(kb.catalog.embeddings.missing, kb.embedder, texts)
            tokens = await call(kb.embedder.count_tokens, list(missing.values()))
            result = await kb.catalog.embeddings.embed(kb.embedder, texts)
        report.texts_embedded += result.texts_embedded
        report.cache_hits += result.cache_hits
        report.tokens_embedded += tokens.tokens
        if self._token_price is not None:
            report.cost = report.tokens_embedded * self._token_price / 1_000_000
        return result.vectors

    async def _copy_postings(self, copy: IndexCopy, name: str) -> None:
        from lorebind_knowledge.catalog import postings
        from lorebind_knowledge.catalog.segments import TermPostings

        kind = postings.WORDS if name == WORDS else postings.TERMS
        segment, size = 0, 0
        some: list[TermPostings] = []
        async for part in in_steps(self._content.postings(name)):
            is_segment = not isinstance(part, TermPostings)
            if some and (is_segment or size > _POSTINGS_AT_ONCE):
                await call(copy.add_postings, segment, some)
                some, size = [], 0
            if isinstance(part, TermPostings):
                some.append(part)
                size += len(part.positions)
            else:
                segment = await call(copy.add_passages, kind, part)
        if some:
            await call(copy.add_postings, segment, some)


def _add_documents(copy: IndexCopy, documents: Sequence[PackedDocument]) -> None:
    languages = {
        document.entry.uri: document.language for document in documents if document.entry.generation
    }
    copy.add_documents([document.entry for document in documents], languages)


def differences(content: PackContent, declared: Mapping[str, Any]) -> list[Difference]:
    """Return where the declaration of a pack differs from another one."""
    packed: Any = content.declaration.get("knowledge_bases")
    first = packed[0] if isinstance(packed, list) and packed else {}
    theirs, ours = _flat(first), _flat(declared)
    return [
        Difference(key, theirs.get(key), ours.get(key))
        for key in dict.fromkeys([*theirs, *ours])
        if theirs.get(key) != ours.get(key) and key not in _OWN
    ]


_OWN = ("id", "vector_db")
"""Settings that belong to the place of a knowledge base, not to its content."""


def _flat(value: object, path: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping) or not value:
        return {path: value} if path else {}
    settings: dict[str, Any] = {}
    for key, item in value.items():
        settings |= _flat(item, f"{path}.{key}" if path else str(key))
    return settings
