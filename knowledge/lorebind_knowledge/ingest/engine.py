"""Ingestion in three steps: enumerate, embed and persist in batches, finalize.

Every step can be interrupted at any point and repeated. A document's row becomes `pending` before
its new generation is staged. The generation is published and the row becomes `ready` in one
transaction. Vectors are cached as soon as they are made. A rerun therefore finds each document
either untouched, or pending with its vectors in the cache.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lorebind_config.errors import (
    IngestRefusedError,
    LorebindError,
    UsageError,
)
from lorebind_knowledge.catalog.ledger import DocumentEntry
from lorebind_knowledge.ingest.batches import (
    CHUNKS_PER_WRITE,
    EmbeddedChunk,
    PendingDocument,
    in_groups,
    written_together,
)
from lorebind_knowledge.ingest.chunks import chunker_fingerprint
from lorebind_knowledge.ingest.corpus import enumerate_corpus
from lorebind_knowledge.ingest.indexes import (
    activate_index,
    at_address,
    begin_index,
    cannot_mend,
    check_strategy,
    index_to_mend,
    indexes_to_write,
    restore_lost,
    unfinished,
)
from lorebind_knowledge.ingest.preparation import prepare_documents, read_ahead
from lorebind_knowledge.ingest.prepared import attempts_of
from lorebind_knowledge.ingest.progress import Progress, ingest_span
from lorebind_knowledge.ingest.report import IngestPlan, IngestReport, count_document
from lorebind_knowledge.ingest.rollback import rollback_notices
from lorebind_knowledge.ingest.terms import TermsOfRun
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.records import Record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from lorebind_knowledge.catalog.indexes import IndexEntry
    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.ingest.batches import Batches, Parts
    from lorebind_knowledge.ingest.corpus import Corpus
    from lorebind_knowledge.ingest.enumeration import Enumeration
    from lorebind_knowledge.ingest.prepared import PlannedDocuments, PreparedDocument
    from lorebind_knowledge.records import Matrix

_DOCUMENTS_PER_READ = 256
"""Documents that are read together. With the queues below, it limits the memory in use."""

_BATCHES_AHEAD = 2


async def ingest(
    corpus: Corpus,
    *,
    strategy: str = "upsert",
    only_failed: bool = False,
    only: Collection[str] = (),
    allow_mass_delete: bool = False,
    wait: bool = False,
    added: Collection[str] | None = None,
    plan: IngestPlan | None = None,
    run_id: str | None = None,
) -> IngestReport:
    """Update the index of a knowledge base to the current contents of its sources.

    Args:
        corpus: the sources, with the knowledge base that they are ingested into.
        strategy: `upsert` changes the active index, document by document; `replace` builds a new
            index in the background and swaps it in when it is complete. A change of the embedder
            always builds a new index. An interrupted `replace` is resumed by the next one. An
            `upsert` of the active index in between drops the unfinished index.
        only_failed: read only the documents that failed or were interrupted before, also in an
            unfinished `replace`; skip all others, and remove nothing. Requires `upsert` and an
            active index.
        only: with `only_failed`, the uris of the documents to read, in any state; empty reads all.
        allow_mass_delete: allow the run to remove more than half of the known documents.
        wait: whether to wait for another ingest of the same knowledge base instead of raising.
        added: the uris of documents that were added by hand. Only these are read, into the active
            index, or into the first one.
        plan: a plan of this ingest, made shortly before. Contents that it has fetched are not
            fetched again, and documents that it has chunked are not chunked again unless they
            have changed.
        run_id: the id of the run in events and in the report; by default a new one. The id of an
            interrupted run marks this run as its continuation.

    Returns:
        the report: the numbers of documents and chunks, the failures, and the state of each
        source.

    Raises:
        UsageError: the strategy is unknown, `only_failed` is used without `upsert`, or the plan
            belongs to another knowledge base.
        IngestRunningError: another ingest is running. Nothing was changed.
        IngestRefusedError: too many documents would be removed, or there is no index for reading
            only some documents. Nothing was changed.
        LeaseLostError: this process was suspended or cut off, and another ingest has taken over.
            Nothing was changed since.
        EmbedderError, StoreError: an outage. Finished work stays and is not repeated.
    """
    check_strategy(strategy)
    if only_failed and strategy != "upsert":
        raise UsageError("only_failed needs the strategy 'upsert'", at=("only_failed",))
    planned = plan.read if plan else None
    if planned and planned.namespace != corpus.kb.namespace:
        raise UsageError(f"the plan belongs to another knowledge base than {corpus.kb.id!r}")
    with ingest_span(corpus.kb, strategy) as ended:
        async with corpus.kb.catalog.hold_lease(corpus.kb.namespace, wait=wait) as lease:
            run = _Run(
                corpus,
                lease,
                strategy,
                only_failed=only_failed,
                only=only,
                added=added,
                planned=planned,
            )
            return ended(await run.execute(allow_mass_delete, run_id))


class _Run:
    """One ingest of one knowledge base."""

    _active: IndexEntry | None
    """The index that was active when the run started."""
    _index: IndexEntry
    """The index that is written."""

    def __init__(
        self,
        corpus: Corpus,
        lease: Lease,
        strategy: str,
        *,
        only_failed: bool,
        only: Collection[str],
        added: Collection[str] | None,
        planned: PlannedDocuments | None,
    ) -> None:
        self._corpus = corpus
        self._kb = kb = corpus.kb
        self._only_failed, self._only = only_failed, only
        self._added, self._planned = added, planned
        self._partial = only_failed or added is not None
        """Whether only some documents are read. Nothing is removed and no index replaced then."""
        self._lease = lease
        self._ledger = kb.catalog.ledger
        self._report = IngestReport(kb.id, strategy)
        self._progress = Progress(kb, lease, self._report)
        self._emit = self._progress.emit
        self._batches: set[asyncio.Task[list[EmbeddedChunk]]] = set()
        self._stopped = False
        """Whether a batch has failed or was cancelled, so that no other may call the embedder."""
        self._most_calls = kb.catalog.embeddings.most_calls(kb.embedder)
        self._calls = asyncio.Semaphore(self._most_calls)
        self._terms = TermsOfRun(kb, lease, partial=self._partial)
        self._serves_nothing = False
        """Whether there is no active index, so that searches may find documents one by one."""

    async def execute(self, allow_mass_delete: bool, run_id: str | None) -> IngestReport:
        await self._progress.carry_out(partial(self._run_pipeline, allow_mass_delete), run_id)
        return self._report

    async def _run_pipeline(self, allow_mass_delete: bool) -> None:
        kb = self._kb
        enumeration = await call(enumerate_corpus, self._corpus, self._added)
        self._report.sources = enumeration.sources
        self._report.notices += await call(rollback_notices, kb, self._report.run_id)
        self._active = active = await call(self._ledger.index, kb.namespace, "active")
        if active and not (allow_mass_delete or self._partial):
            await call(self._refuse_mass_delete, enumeration, active)
        self._serves_nothing = active is None
        self._index = index = await self._terms.begin(await self._choose_index())
        self._report.notices += await restore_lost(kb, self._lease, index, self._vectors)
        if self._serves_nothing and await call(self._ledger.serves, index.key):
            await self._serve()  # an earlier run was interrupted before this step
        if self._only_failed:
            enumeration.keep_only(self._only or await call(unfinished, kb, index))
        self._emit("ingest_listed", documents=await call(len, enumeration))
        await self._embed_and_persist(enumeration)
        if self._corpus.large_chunks:
            self._report.note_truncated()
        planned = self._planned.notices if self._planned else []
        self._report.notices += dict.fromkeys([*planned, *self._corpus.notices])
        await self._finalise([] if self._partial else await call(enumeration.vanished))

    def _refuse_mass_delete(self, enumeration: Enumeration, active: IndexEntry) -> None:
        kb = self._kb
        total, vanished = enumeration.count_vanished(self._ledger.served(active.key))
        if vanished * 2 > total:
            remove = kb.namespace.command("ingest", " --allow-mass-delete")
            raise IngestRefusedError(
                f"{vanished} of {total} documents of {kb.id!r} are no longer in its "
                f"sources; nothing was changed; to remove them, run: {remove}",
                suggestions=[remove],
            )

    async def _choose_index(self) -> IndexEntry:
        """Return the index to write: the active one, or its successor, which may be created."""
        kb = self._kb
        mends = self._only_failed or (self._added is not None and not self._serves_nothing)
        if mends:
            indexes = [await call(index_to_mend, kb, adds=self._added is not None)]
        else:
            indexes = await call(indexes_to_write, kb, self._report.strategy)
        for index in indexes:
            same = await at_address(kb, self._lease, index, self._vectors)
            if same is not None:
                return same
        if indexes:
            why = f"has vectors that {kb.embedder.fingerprint} no longer makes at its new address"
            if mends:
                raise cannot_mend(kb, why, adds=self._added is not None)
            self._report.notices.append(f"the index {why}; all documents are embedded again")
            self._planned = None  # it was made for the other index
        index = await begin_index(self._corpus, self._lease)
        if self._serves_nothing:
            about = index.manifest
            self._emit("collection_created", embedder=about.embedder, dimension=about.dimension)
        return index

    # Step two: reading, embedding and writing overlap, connected by bounded queues.

    async def _embed_and_persist(self, enumeration: Enumeration) -> None:
        prepared: asyncio.Queue[list[PreparedDocument]] = asyncio.Queue(_BATCHES_AHEAD)
        key, ledger = self._index.key, self._ledger
        entries: Iterable[DocumentEntry]
        if self._partial:  # nothing is removed, so the other documents do not matter
            entries = await call(ledger.some_documents, key, await call(list, enumeration.uris()))
        else:
            entries = ledger.every_document(key)
        embedder = self._kb.embedder
        full = CHUNKS_PER_WRITE // embedder.batch_size  # batches that are ready for one write
        embedded: Batches = asyncio.Queue(max(self._most_calls, _BATCHES_AHEAD, full))
        try:
            async with asyncio.TaskGroup() as tasks:
                documents = prepare_documents(
                    self._corpus,
                    enumeration,
                    entries,
                    _DOCUMENTS_PER_READ,
                    planned=self._planned,
                )
                tasks.create_task(read_ahead(documents, prepared))
                tasks.create_task(self._embed(prepared, embedded))
                tasks.create_task(self._persist(embedded))
        except BaseExceptionGroup as group:
            # Callers handle errors of Lorebind, which a group would hide from them.
            raise group.exceptions[0] from group.exceptions[0].__cause__
        finally:
            left = list(self._batches)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _embed(
        self, prepared: asyncio.Queue[list[PreparedDocument]], embedded: Batches
    ) -> None:
        size = self._kb.embedder.batch_size
        parts: Parts = []
        while documents := await prepared.get():
            for pending in await self._compare(documents):
                parts += [(pending, chunk) for chunk in pending.document.chunks]
            while len(parts) >= size:
                await self._begin(parts[:size], embedded)
                parts = parts[size:]
        if parts:
            await self._begin(parts, embedded)
        await embedded.put(None)

    async def _begin(self, parts: Parts, embedded: Batches) -> None:
        """Start embedding a batch; the queue limits the number of concurrent batches."""
        task = asyncio.create_task(self._embed_batch(parts))
        self._batches.add(task)
        task.add_done_callback(self._forget)
        await embedded.put(task)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._batches.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved here: nothing awaits the task if another one failed before

    async def _compare(self, documents: Sequence[PreparedDocument]) -> list[PendingDocument]:
        """Count documents and update their rows; return those to embed and persist."""
        report = self._report
        pending: list[PendingDocument] = []
        rows: list[DocumentEntry] = []
        changed = [
            document.uri for document in documents if document.action in ("added", "updated")
        ]
        generations: dict[str, int] = {}
        if changed:
            generations = await call(self._kb.index.next_generations, self._index, changed)
        for document in documents:
            entry = document.entry or DocumentEntry(document.uri, document.source)
            count_document(report, document)
            self._progress.chunked(document)
            if document.action == "failed":
                failed = entry._replace(
                    state="failed",
                    reason=document.reason,
                    attempts=attempts_of(document),
                    refused=document.refused,
                )
                rows.append(failed)
            elif document.action == "unchanged":
                before = (entry.source, entry.version, entry.recipe, entry.modified)
                now = (document.source, document.version, document.recipe, document.modified)
                if now != before or self._partial:  # it may have failed in a successor
                    source, version, recipe, modified = now
                    rows.append(
                        entry._replace(
                            source=source, version=version, recipe=recipe, modified=modified
                        )
                    )
            else:
                begun = entry._replace(
                    source=document.source, title=document.title, state="pending"
                )
                rows.append(begun)
                generation = generations[document.uri]
                pending.append(PendingDocument(document, begun, generation, len(document.chunks)))
        if rows:
            key = self._index.key
            await call(self._ledger.put_documents, self._lease, key, rows, report.run_id)
        await self._publish([document for document in pending if not document.waiting])
        return pending

    async def _embed_batch(self, parts: Parts) -> list[EmbeddedChunk]:
        texts = [chunk.embedded_text for _, chunk in parts]
        languages = [pending.document.language for pending, _ in parts]
        vectors = await self._vectors(texts)  # meanwhile, an earlier batch gets its terms
        terms = await self._terms.embed(list(zip(texts, languages, strict=True)))
        return [
            EmbeddedChunk(*part, vector, of_text)
            for part, vector, of_text in zip(parts, vectors, terms, strict=True)
        ]

    async def _vectors(self, texts: Sequence[str]) -> Matrix:
        """Return the vectors of texts, from the cache or the embedder, and count them."""
        async with self._calls:
            if self._stopped:
                raise asyncio.CancelledError
            try:
                result = await self._kb.catalog.embeddings.embed(self._kb.embedder, texts)
            except (LorebindError, asyncio.CancelledError):
                # Batches that wait are cancelled only when all reading has ended.
                self._stopped = True
                raise
        truncated = await call(self._kb.embedder.count_truncated, texts)
        report = self._report  # after the awaits, because concurrent batches update it too
        report.texts_embedded += result.texts_embedded
        report.cache_hits += result.cache_hits
        report.texts_truncated += truncated
        self._emit(
            "ingest_embedded",
            chunks=len(texts),
            texts_embedded=result.texts_embedded,
            cache_hits=result.cache_hits,
            texts=lambda: {"texts": list(texts)},
        )
        return result.vectors

    async def _persist(self, embedded: Batches) -> None:
        """Stage embedded chunks, and meanwhile publish the documents that are complete."""
        publishing = asyncio.create_task(self._publish([]))
        try:
            async for chunks in written_together(embedded):
                await self._stage(chunks)
                complete: list[PendingDocument] = []
                for pending, *_ in chunks:
                    pending.waiting -= 1
                    if pending.waiting == 0:
                        complete.append(pending)
                await publishing
                publishing = asyncio.create_task(self._publish(complete))
        finally:
            await publishing

    async def _stage(self, chunks: Sequence[EmbeddedChunk]) -> None:
        index = self._index
        records = [
            Record(
                chunk.id,
                index.key,
                pending.document.uri,
                pending.generation,
                chunk.text,
                vector,
                chunk.metadata,
                chunk.context,
                pending.document.language,
                terms,
            )
            for pending, chunk, vector, terms in chunks
        ]
        await call(self._kb.index.stage, self._lease, index, records)

    async def _publish(self, complete: Sequence[PendingDocument]) -> None:
        """Publish the new generations of documents whose chunks are all staged."""
        if not complete:
            return
        ready = [pending.ready_entry for pending in complete]
        generations = {entry.uri: entry.generation for entry in ready}
        changes = await call(
            self._kb.index.publish,
            self._lease,
            self._index,
            generations,
            ready,
            self._report.run_id,
        )
        await self._serve()
        counts = self._report.chunks
        for change in changes.values():
            counts["added"] += change.added
            counts["removed"] += change.removed
            counts["unchanged"] += change.unchanged
            counts["total"] += change.added + change.unchanged

    async def _serve(self) -> None:
        """Activate the first index of a knowledge base, so that searches find its documents."""
        if self._serves_nothing:
            await call(self._ledger.activate_index, self._lease, self._index.key)
            self._serves_nothing = False

    # Step three.

    async def _finalise(self, vanished: Iterable[tuple[str, int]]) -> None:
        kb, index, report = self._kb, self._index, self._report
        for uris in in_groups(vanished):
            report.chunks["removed"] += await call(kb.index.remove, self._lease, index, uris)
            report.documents["removed"] += len(uris)
            for uri in uris:
                self._emit("document_deleted", uri=uri)
        if not self._partial:
            index = await self._terms.complete(index)
        report.terms_added = self._terms.count
        report.notices += [*self._terms.notices, *kb.catalog.embeddings.notices(self._lease)]
        chunker = chunker_fingerprint(self._corpus)
        manifest = replace(index.manifest, chunker=chunker)
        if manifest != index.manifest and not self._partial:
            await call(self._ledger.set_manifest, self._lease, index.key, manifest)
        report.judge()
        await activate_index(kb, self._lease, self._active, index, report, partial=self._partial)
        if report.documents["updated"] or report.documents["removed"]:
            await call(kb.index.sweep, self._lease, index)
        await call(kb.index.finish_load, index)
