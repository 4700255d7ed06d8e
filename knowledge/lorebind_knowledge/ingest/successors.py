"""Which index an ingest writes, the one in use or its successor, and the switch to that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.bridge import call
from lorebind_knowledge.catalog.ledger import Manifest
from lorebind_knowledge.embedders.base import embed_query
from lorebind_knowledge.errors import IngestRefusedError
from lorebind_knowledge.ingest.preparation import chunker_fingerprint

if TYPE_CHECKING:
    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.catalog.ledger import IndexEntry
    from lorebind_knowledge.ingest.corpus import Corpus
    from lorebind_knowledge.ingest.report import IngestReport
    from lorebind_knowledge.knowledge_base import KnowledgeBase


def indexes_to_write(kb: KnowledgeBase, strategy: str) -> list[IndexEntry]:
    """The indexes that an ingest can go on with, the best first; where none is, it begins one."""
    states = ("active", "building") if strategy == "upsert" else ("building",)
    found = [kb.catalog.ledger.index(kb.namespace, state) for state in states]
    return [index for index in found if index is not None and _is_of_embedder(kb, index)]


def index_to_mend(kb: KnowledgeBase) -> IndexEntry:
    """The index in use: a new one would be without all that did not fail.

    Raises:
        IngestRefusedError: there is none, or it is another embedder's.
    """
    active = kb.catalog.ledger.index(kb.namespace, "active")
    if active is None or not _is_of_embedder(kb, active):
        why = "was built with another embedder" if active else "is not there yet"
        raise cannot_mend(kb, why)
    return active


def cannot_mend(kb: KnowledgeBase, why: str) -> IngestRefusedError:
    """The refusal to read only some documents where all have to be."""
    return IngestRefusedError(
        f"the index of {kb.id!r} {why}, and only some documents were to be read; "
        f"ingest everything first: {kb.ingest_command}"
    )


async def begin_index(corpus: Corpus, lease: Lease) -> IndexEntry:
    """A new index for the embedder, in place of a successor that another one has begun."""
    kb, ledger = corpus.kb, corpus.kb.catalog.ledger
    begun = await call(ledger.index, kb.namespace, "building")
    if begun is not None:
        await _give_up(kb, lease, begun)
    fingerprint = kb.embedder.fingerprint
    dimension = fingerprint.dimension or len(await embed_query(kb.embedder, "dimension"))
    chunker = chunker_fingerprint(corpus)
    manifest = Manifest(str(fingerprint), fingerprint.key, dimension, chunker, fingerprint.address)
    return await call(ledger.create_index, lease, manifest)


async def settle(
    kb: KnowledgeBase, lease: Lease, index: IndexEntry, report: IngestReport, *, partial: bool
) -> None:
    """Let the index that was written serve, and drop those that are of no use any more.

    A successor that was begun and not gone on with is given up, unless this run has failed or read
    only some documents.
    """
    ledger = kb.catalog.ledger
    active = await call(ledger.index, kb.namespace, "active")
    if active is not None and active.key != index.key:
        await _switch(kb, lease, active, index, report)
    elif report.status != "failed" and not partial:
        successor = await call(ledger.index, kb.namespace, "building")
        if successor is not None and successor.key != index.key:
            await _give_up(kb, lease, successor)
    for retired in await call(ledger.retired_indexes, kb.namespace):
        await call(kb.index.drop, lease, retired)


async def _switch(
    kb: KnowledgeBase, lease: Lease, old: IndexEntry, new: IndexEntry, report: IngestReport
) -> None:
    """Let the successor serve, unless it would lose a document that the old one has."""
    before = await call(kb.catalog.ledger.documents, old.key)
    failed = [failure.uri for failure in report.failures if failure.uri in before]
    lost = [uri for uri in failed if before[uri].generation]
    unread = [source for source in report.sources if source.status == "failed"]
    if lost or unread:
        report.notices.append(
            "the index that was in use stays in use, because its successor would lose "
            f"documents ({len(lost)} failed, {len(unread)} sources could not be read); "
            "mend them and ingest again: what is done is not done again"
        )
    else:
        await call(kb.catalog.ledger.activate_index, lease, new.key)


async def _give_up(kb: KnowledgeBase, lease: Lease, index: IndexEntry) -> None:
    """Drop a successor, which first ceases to be one: what is half gone is never gone on with.

    Its vectors stay in the cache, so that one that is begun again embeds nothing twice.
    """
    await call(kb.catalog.ledger.retire_index, lease, index.key)
    await call(kb.index.drop, lease, index)


def _is_of_embedder(kb: KnowledgeBase, index: IndexEntry) -> bool:
    return kb.embedder.fingerprint.made(index.manifest.embedder_key)
