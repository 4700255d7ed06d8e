"""The index of documents that are added by hand, which no ingest knows of."""

from __future__ import annotations

import asyncio
import random
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from lorebind_knowledge.bridge import call
from lorebind_knowledge.catalog.ledger import Manifest
from lorebind_knowledge.embedders.base import embed_query
from lorebind_knowledge.errors import IndexMismatchError, IngestRunningError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.catalog.ledger import IndexEntry
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.index.index import Index
    from lorebind_knowledge.namespace import Namespace

_LONGEST_PAUSE = 0.05


@asynccontextmanager
async def turn(
    index: Index, embedder: Embedder, namespace: Namespace
) -> AsyncIterator[tuple[Lease, IndexEntry]]:
    """The right to write a collection, whose index is made at the first turn.

    Raises:
        IndexMismatchError: it was begun with another embedder.
        EmbedderError, StoreError: an outage.
    """
    stack = ExitStack()
    try:
        lease = await _lease(stack, index, namespace)
        entry = await call(index.catalog.ledger.index, namespace, "active")
        if entry is None:
            manifest = await _manifest(embedder)
            entry = await call(index.catalog.ledger.create_index, lease, manifest)
            await call(index.catalog.ledger.activate_index, lease, entry.key)
        check_embedder(entry, embedder)
        yield lease, entry
    finally:
        await call(stack.close)


def check_embedder(entry: IndexEntry, embedder: Embedder) -> None:
    """
    Raises:
        IndexMismatchError: a collection was begun with another embedder.
    """
    if entry.manifest.embedder_key != embedder.fingerprint.key:
        raise IndexMismatchError(
            f"collection {entry.key.namespace.kb!r} was begun with the embedder "
            f"{entry.manifest.embedder}, and now it is given {embedder.fingerprint}; use the first "
            "one, or another collection"
        )


async def _lease(stack: ExitStack, index: Index, namespace: Namespace) -> Lease:
    while True:
        try:
            return await call(stack.enter_context, index.catalog.lease(namespace))
        except IngestRunningError:
            # Asked again, because a thread that waits for a lock cannot be cancelled.
            await asyncio.sleep(random.uniform(0, _LONGEST_PAUSE))


async def _manifest(embedder: Embedder) -> Manifest:
    fingerprint = embedder.fingerprint
    dimension = fingerprint.dimension or len(await embed_query(embedder, "dimension"))
    return Manifest(str(fingerprint), fingerprint.key, dimension, "")
