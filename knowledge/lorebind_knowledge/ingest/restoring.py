"""Check at the start of an ingest that the vector database has all vectors of the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.catalog.ledger import IndexEntry
    from lorebind_knowledge.knowledge_base import KnowledgeBase
    from lorebind_knowledge.records import Matrix


async def restore_lost(
    kb: KnowledgeBase,
    lease: Lease,
    index: IndexEntry,
    embed: Callable[[Sequence[str]], Awaitable[Matrix]],
) -> list[str]:
    """Add vectors that the database has lost, after removing leftovers of an interrupted run.

    Args:
        kb: the knowledge base.
        lease: the writer's.
        index: one of its indexes.
        embed: returns the vectors of texts; it gets at most one batch of the embedder at a time.

    Returns:
        notices for the operator.
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
