"""The index of a collection: documents that are added by hand and that ingests do not touch."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from lorebind_config.errors import IndexMismatchError
from lorebind_knowledge.catalog.ledger import Manifest
from lorebind_knowledge.embedders.base import embed_query
from lorebind_knowledge.index.hold_lease import hold_lease
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.catalog.ledger import IndexEntry
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.index.index import Index


@asynccontextmanager
async def collection_turn(
    index: Index, embedder: Embedder, namespace: Namespace
) -> AsyncIterator[tuple[Lease, IndexEntry]]:
    """Hold the lease to write a collection; create its index if there is none.

    Raises:
        IndexMismatchError: the collection was created with another embedder.
        EmbedderError, StoreError: an outage.
    """
    async with hold_lease(index.catalog, namespace, wait=True) as lease:
        entry = await call(index.catalog.ledger.index, namespace, "active")
        if entry is None:
            manifest = await _manifest(embedder)
            entry = await call(index.catalog.ledger.create_index, lease, manifest)
            await call(index.catalog.ledger.activate_index, lease, entry.key)
        check_embedder(entry, embedder)
        yield lease, entry


def check_embedder(entry: IndexEntry, embedder: Embedder) -> None:
    """Check that a collection is used with the embedder that it was created with.

    Raises:
        IndexMismatchError: the embedder is another one.
    """
    if embedder.fingerprint.key != entry.manifest.embedder_key:
        raise IndexMismatchError(
            f"collection {entry.key.namespace.kb!r} was created with the embedder "
            f"{entry.manifest.embedder}, but it is used with {embedder.fingerprint}; use the first "
            "one, or another collection"
        )


async def _manifest(embedder: Embedder) -> Manifest:
    fingerprint = embedder.fingerprint
    dimension = fingerprint.dimension or len(await embed_query(embedder, "dimension"))
    return Manifest(str(fingerprint), fingerprint.key, dimension, "")
