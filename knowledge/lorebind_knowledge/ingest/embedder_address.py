"""Check whether an embedder at another address still makes the vectors of an index."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.catalog.ledger import IndexEntry
    from lorebind_knowledge.knowledge_base import KnowledgeBase
    from lorebind_knowledge.records import Matrix, Vector

_SAMPLE = 3
_LEAST_COSINE = 0.999
"""The least cosine of two vectors of the same model: servers round differently, but by less."""


async def at_address(
    kb: KnowledgeBase,
    lease: Lease,
    entry: IndexEntry,
    embed: Callable[[Sequence[str]], Awaitable[Matrix]],
) -> IndexEntry | None:
    """Return the index if its embedder makes the same vectors at its current address, else None.

    Many servers accept any model name, so another `base_url` may serve another model. The check
    embeds a few texts of the index. If the vectors are the same, the index records the address.

    Args:
        kb: the knowledge base.
        lease: the writer's.
        entry: one of its indexes, made by an embedder of the same name.
        embed: returns the vectors of texts; it gets at most one batch of the embedder at a time.
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
