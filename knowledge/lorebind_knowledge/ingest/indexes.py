"""The index that an ingest writes: chosen, checked, and swapped in if it is a successor."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lorebind_config.errors import IngestRefusedError, UsageError, did_you_mean
from lorebind_knowledge.catalog.indexes import Manifest
from lorebind_knowledge.embedders.base import embed_query
from lorebind_knowledge.ingest.chunks import chunker_fingerprint
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

    from lorebind_knowledge.catalog.added import AddedDocument
    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.catalog.indexes import IndexEntry
    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.ingest.corpus import Corpus
    from lorebind_knowledge.ingest.report import IngestReport
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase
    from lorebind_knowledge.records import Matrix, Vector

STRATEGIES = ("upsert", "replace")
# Another model gives every text another vector, so it is enough to compare a few.
_SAMPLE = 3

_LEAST_COSINE = 0.999
"""The least cosine of two vectors of the same model: servers round differently, but by less."""


def check_strategy(strategy: str) -> None:
    """Raise `UsageError` for an unknown strategy. The message lists the known ones."""
    if strategy not in STRATEGIES:
        hint = did_you_mean(strategy, STRATEGIES)
        raise UsageError(f"unknown ingest strategy {strategy!r}; {hint}")


def indexes_to_write(kb: IndexedKnowledgeBase, strategy: str) -> list[IndexEntry]:
    """Return the indexes that an ingest can continue, best first; if none, it creates one."""
    states = ("active", "building") if strategy == "upsert" else ("building",)
    ledger = kb.catalog.ledger
    with kb.catalog.reading() as sql:
        indexes = [ledger.index_within(sql, kb.namespace, state) for state in states]
    return [index for index in indexes if index is not None and _is_of_embedder(kb, index)]


def index_to_mend(kb: IndexedKnowledgeBase, *, adds: bool) -> IndexEntry:
    """Return the active index. A new one would lack all documents that did not fail.

    Args:
        kb: the knowledge base.
        adds: whether the ingest is of documents that were just added by hand.

    Raises:
        IngestRefusedError: there is no active index, or another embedder has made it.
    """
    active = kb.catalog.ledger.index(kb.namespace, "active")
    if active is None or not _is_of_embedder(kb, active):
        why = "was built with another embedder" if active else "does not exist yet"
        raise cannot_mend(kb, why, adds=adds)
    return active


def cannot_mend(kb: IndexedKnowledgeBase, why: str, *, adds: bool) -> IngestRefusedError:
    """Return the error for an ingest of some documents when all have to be read."""
    stored = "the added documents are stored and pending; to ingest them, " if adds else ""
    return IngestRefusedError(
        f"the index of {kb.id!r} {why}, so that ingesting only some documents is not possible; "
        f"{stored}ingest everything{'' if adds else ' first'}: {kb.ingest_command}",
        suggestions=[kb.ingest_command],
    )


def unfinished(kb: IndexedKnowledgeBase, index: IndexEntry) -> set[str]:
    """Return the documents of an index that are not ready, or failed in an unfinished successor."""
    ledger = kb.catalog.ledger
    successor = ledger.index(kb.namespace, "building")
    failed = ledger.unready(successor.key, "failed") if successor else ()
    return {*ledger.unready(index.key), *failed}


async def begin_index(corpus: Corpus, lease: Lease) -> IndexEntry:
    """Create an index for the embedder, and drop an unfinished successor of another one."""
    kb, ledger = corpus.kb, corpus.kb.catalog.ledger
    begun = await call(ledger.index, kb.namespace, "building")
    if begun is not None:
        await _give_up(kb, lease, begun)
    manifest = await new_manifest(kb, chunker_fingerprint(corpus))
    if kb.sparse is not None:
        sparse = kb.sparse.fingerprint
        manifest = replace(manifest, sparse=str(sparse), sparse_key=sparse.key)
    return await call(ledger.create_index, lease, manifest)


async def new_manifest(kb: IndexedKnowledgeBase, chunker: str) -> Manifest:
    """Return the manifest of a new index with vectors of the embedder, and without terms."""
    fingerprint = kb.embedder.fingerprint
    # The dimension of an unknown model is that of any vector it returns.
    dimension = fingerprint.dimension or len(await embed_query(kb.embedder, "dimension"))
    return Manifest(str(fingerprint), fingerprint.key, dimension, chunker, fingerprint.address)


async def publish_copy(
    kb: IndexedKnowledgeBase,
    lease: Lease,
    index: IndexEntry,
    added: Iterable[Sequence[AddedDocument]],
) -> list[str]:
    """Activate a copy of another index, together with the documents that were added by hand.

    Args:
        kb: the knowledge base.
        lease: the writer's.
        index: the copy, which is complete.
        added: the added documents of the copy, in parts. Others stay, and are pending.

    Returns:
        messages for the operator.
    """

    def publish() -> int:
        with kb.catalog.writing(lease) as sql:
            for documents in added:
                kb.catalog.added.put_within(sql, kb.namespace, documents)
            kb.catalog.ledger.activate_within(sql, index.key, kb.keep)
            return kb.catalog.added.count_waiting_within(sql, kb.namespace, index.key)

    before = await call(kb.catalog.ledger.index, kb.namespace, "active")
    waiting = await call(publish)
    if before is not None:
        kb.index.release(before)
    successor = await call(kb.catalog.ledger.index, kb.namespace, "building")
    if successor is not None:
        await _give_up(kb, lease, successor)
    await _drop_retired(kb, lease)
    if not waiting:
        return []
    return [
        f"the pack lacks documents that were added here ({waiting}); they stay, and the next "
        f"ingest indexes them: {kb.ingest_command}"
    ]


async def at_address(
    kb: IndexedKnowledgeBase,
    lease: Lease,
    entry: IndexEntry,
    embed: Callable[[Sequence[str]], Awaitable[Matrix]],
) -> IndexEntry | None:
    """Return the index if its embedder makes the same vectors at its current address, else None.

    Many servers accept any model name, so another `base_url` may serve another model. The check
    embeds a few texts of the index. If the vectors are the same, the index records the address.
    `embed` gets at most one batch of the embedder at a time.
    """
    address = kb.embedder.fingerprint.address
    if address == entry.manifest.address:
        return entry
    sample = await call(kb.index.sample, entry, min(_SAMPLE, kb.embedder.batch_size))
    if sample:
        vectors = await embed([text for text, _ in sample])
        pairs = zip((before for _, before in sample), vectors, strict=True)
        if not all(before is not None and _are_same(before, now) for before, now in pairs):
            return None
    manifest = replace(entry.manifest, address=address)
    await call(kb.catalog.ledger.set_manifest, lease, entry.key, manifest)
    return replace(entry, manifest=manifest)


def _are_same(before: Vector, now: Vector) -> bool:
    """Return whether two vectors have the same direction; vectors of length 0 have none."""
    from lorebind_knowledge.catalog.entries import unit_vector

    if before.shape != now.shape:
        return False
    apart = unit_vector(before) - unit_vector(now)
    return float(apart @ apart) <= 2 * (1 - _LEAST_COSINE)


async def restore_lost(
    kb: IndexedKnowledgeBase,
    lease: Lease,
    index: IndexEntry,
    embed: Callable[[Sequence[str]], Awaitable[Matrix]],
) -> list[str]:
    """Add vectors that the database has lost, after removing leftovers of an interrupted run.

    `embed` gets at most one batch of the embedder at a time. Returns notices for the operator.
    """
    await call(kb.index.sweep, lease, index, abandon=True)
    live, lost, has_strays = await call(kb.index.compare, index)
    if has_strays:
        await call(kb.index.delete_strays, lease, index)
    for start in range(0, len(lost), kb.embedder.batch_size):
        some = lost[start : start + kb.embedder.batch_size]
        texts = await call(kb.index.lost_texts, index, some)
        vectors = await embed(list(texts.values()))
        await call(kb.index.restore, lease, index, dict(zip(texts, vectors, strict=True)))
    if not lost:
        return []
    return [f"{kb.index.store} had lost {len(lost)} of {live} vectors; they have been restored"]


async def activate_index(
    kb: IndexedKnowledgeBase,
    lease: Lease,
    active: IndexEntry | None,
    index: IndexEntry,
    report: IngestReport,
    *,
    partial: bool,
) -> None:
    """Activate the index that was written, and drop indexes that are no longer needed.

    An unfinished successor that this run did not continue is dropped, unless the run has failed or
    has read only some documents (`partial`). If `active`, the index that was active when the run
    started, stays in use, the report receives a notice.
    """
    ledger = kb.catalog.ledger
    if active is not None and active.key != index.key:
        await _switch(kb, lease, active, index, report)
    elif report.status != "failed" and not partial:
        successor = await call(ledger.index, kb.namespace, "building")
        if successor is not None and successor.key != index.key:
            await _give_up(kb, lease, successor)
    await _drop_retired(kb, lease)


async def _switch(
    kb: IndexedKnowledgeBase, lease: Lease, old: IndexEntry, new: IndexEntry, report: IngestReport
) -> None:
    """Activate the successor, unless it would lose a document that the old index has."""
    failed = {failure.uri for failure in report.failures}
    unlisted = tuple(folder.uri for source in report.sources for folder in source.unlisted)
    lost = await call(_lost, kb.catalog, old, new, failed, unlisted)
    unread = [source for source in report.sources if source.status == "failed"]
    if lost or unread:
        report.notices.append(
            "the active index stays in use, because its successor would lose documents "
            f"({len(lost)} could not be read, {len(unread)} sources failed); "
            "fix them and ingest again; finished work is not repeated"
        )
    else:
        await call(kb.catalog.ledger.activate_index, lease, new.key, kb.keep)
        kb.index.release(old)


def _lost(
    catalog: Catalog,
    old: IndexEntry,
    new: IndexEntry,
    failed: Collection[str],
    unlisted: tuple[str, ...],
) -> list[str]:
    """Return the documents of an index that its successor does not have."""
    lost, uncertain = [], []
    if failed or unlisted:
        for served in catalog.ledger.served(old.key):
            if served.uri in failed:
                lost.append(served.uri)
            elif served.uri.startswith(unlisted):
                uncertain.append(served.uri)
    with catalog.reading() as sql:
        there = catalog.ledger.uris_within(sql, new.key, uncertain)
    return lost + [uri for uri in uncertain if uri not in there]


async def _drop_retired(kb: IndexedKnowledgeBase, lease: Lease) -> None:
    """Drop the indexes that are no longer needed: `keep` may have been lowered, too."""
    ledger = kb.catalog.ledger
    earlier, retired = await call(ledger.unused_indexes, kb.namespace)
    if len(earlier) > kb.keep:
        await call(ledger.retire_earlier, lease, kb.keep)
        _, retired = await call(ledger.unused_indexes, kb.namespace)
    for index in retired:
        await call(kb.index.drop, lease, index)


async def _give_up(kb: IndexedKnowledgeBase, lease: Lease, index: IndexEntry) -> None:
    """Retire and drop a successor. Once retired, a partly dropped index is never continued.

    Its vectors stay in the cache, so that a new successor does not embed any text again.
    """
    await call(kb.catalog.ledger.retire_index, lease, index.key)
    await call(kb.index.drop, lease, index)


def _is_of_embedder(kb: IndexedKnowledgeBase, index: IndexEntry) -> bool:
    return kb.embedder.fingerprint.key == index.manifest.embedder_key
