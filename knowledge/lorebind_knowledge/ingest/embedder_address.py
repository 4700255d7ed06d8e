"""Whether an embedder at another address is still the one that made an index."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lorebind_knowledge.bridge import call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.catalog.ledger import IndexEntry
    from lorebind_knowledge.knowledge_base import KnowledgeBase
    from lorebind_knowledge.records import Matrix, Vector

_SAMPLE = 3
_LEAST_COSINE = 0.999
"""Below this two vectors are not of one model: servers round, but not as much."""


async def at_address(
    kb: KnowledgeBase,
    lease: Lease,
    entry: IndexEntry,
    embed: Callable[[Sequence[str]], Awaitable[Matrix]],
) -> IndexEntry | None:
    """The index, if its embedder makes the same vectors at its present address; else None.

    Many servers take any model name, so that another `base_url` may be another model. A few texts
    of the index are embedded to see; if the vectors are the same, the index keeps the address.

    Args:
        kb: the knowledge base.
        lease: the writer's.
        entry: one of its indexes, which an embedder of the same name has made.
        embed: gives the vectors of texts, at most a batch of the embedder at a time.
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
    """Whether two vectors point the same way; those of length 0 point nowhere, both of them."""
    from lorebind_knowledge.catalog.entries import unit_vector

    if before.shape != now.shape:
        return False
    apart = unit_vector(before) - unit_vector(now)
    return float(apart @ apart) <= 2 * (1 - _LEAST_COSINE)
