"""`rollback`: search an earlier index again."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from lorebind_config.errors import IndexMismatchError, UsageError
from lorebind_knowledge.catalog.chunks import Chunks
from lorebind_knowledge.ingest.report import IngestReport
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.catalog.indexes import IndexEntry
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase

STRATEGY = "rollback"
"""The strategy of its runs in the ledger."""


@dataclass(frozen=True, slots=True)
class RollbackReport:
    """The index that is searched again."""

    kb_id: str
    run_id: str
    index: int
    """The number of the index that is searched now."""
    index_before: int
    """The number of the index that was searched before. It stays, so that you can go back."""
    documents: int
    """Number of documents that searches find now."""
    chunks: int
    """Number of chunks that searches find now."""


async def rollback(kb: IndexedKnowledgeBase, index: int | None = None) -> RollbackReport:
    """Search an earlier index again, instead of the active one, which stays as an earlier one.

    Nothing is read, embedded or deleted.

    Args:
        kb: the knowledge base.
        index: the number of the index; None means the newest one before the active one.

    Raises:
        UsageError: there is no such index.
        IndexMismatchError: another embedder has made it.
        IngestRunningError: an ingest of the knowledge base is running.
    """
    ledger = kb.catalog.ledger
    async with kb.catalog.hold_lease(kb.namespace, wait=False) as lease:
        active = await call(ledger.index, kb.namespace, "active")
        earlier = await call(ledger.earlier_indexes, kb.namespace)
        if active is None or not earlier:
            raise UsageError(
                f"knowledge base {kb.id!r} has no earlier index to go back to; `keep` says how "
                f"many stay after a rebuild, and is {kb.keep} now"
            )
        target = _choose(kb, earlier, active, index)
        if target.manifest.embedder_key != kb.embedder.fingerprint.key:
            raise IndexMismatchError(
                f"index {target.key.number} of {kb.id!r} was built with the embedder "
                f"{target.manifest.embedder}, but the knowledge base declares "
                f"{kb.embedder.fingerprint}; declare the first one, then roll back again"
            )
        run_id = await call(ledger.start_run, lease, STRATEGY)
        await call(ledger.activate_index, lease, target.key, max(kb.keep, len(earlier)))
        kb.index.release(active)
        documents, chunks = await call(_counts, kb, target)
        report = IngestReport(kb.id, STRATEGY, run_id)
        report.documents["unchanged"] = documents
        report.chunks |= {"unchanged": chunks, "total": chunks}
        await call(ledger.finish_run, lease, run_id, report.status, asdict(report))
    return RollbackReport(kb.id, run_id, target.key.number, active.key.number, documents, chunks)


def rollback_notices(kb: IndexedKnowledgeBase, run_id: str = "") -> list[str]:
    """Return the message of the first ingest or plan after a rollback.

    Args:
        kb: the knowledge base.
        run_id: the run that asks, if it is in the ledger already.
    """
    runs = [run for run in kb.catalog.runs.list(kb.namespace, 2) if run.run_id != run_id]
    if not runs or runs[0].strategy != STRATEGY:
        return []
    active = kb.catalog.ledger.index(kb.namespace, "active")
    number = active.key.number if active else 0
    return [
        f"index {number} is searched again since a rollback, and an ingest updates it to the "
        "current sources and settings"
    ]


def _choose(
    kb: IndexedKnowledgeBase, earlier: Sequence[IndexEntry], active: IndexEntry, index: int | None
) -> IndexEntry:
    for entry in earlier:  # newest first
        number = entry.key.number
        if number == index or (index is None and number < active.key.number):
            return entry
    numbers = ", ".join(str(entry.key.number) for entry in earlier)
    before = "no index before it" if index is None else f"no index {index}"
    to = kb.namespace.command("rollback", f" --to {earlier[0].key.number}")
    raise UsageError(
        f"knowledge base {kb.id!r} searches index {active.key.number}, and has {before}; it "
        f"has: {numbers}; switch with: {to}"
    )


def _counts(kb: IndexedKnowledgeBase, index: IndexEntry) -> tuple[int, int]:
    """Return the numbers of documents and chunks that searches find in an index."""
    with kb.catalog.reading() as sql:
        state = Chunks(sql, index.index_uid).current_state()
    documents = sum(1 for _ in kb.catalog.ledger.served(index.key))
    return documents, state.live if state else 0
