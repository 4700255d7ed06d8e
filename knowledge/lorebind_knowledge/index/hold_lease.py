"""Waiting for the lease of a knowledge base or a collection."""

from __future__ import annotations

import asyncio
import random
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from lorebind_config.errors import IngestRunningError
from lorebind_config.namespace import tenant
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.catalog.leases import Lease

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 0.2
_GROWTH = 1.5


@asynccontextmanager
async def hold_lease(catalog: Catalog, namespace: Namespace, *, wait: bool) -> AsyncIterator[Lease]:
    """Hold the lease of a namespace until the end of the block; see `Catalog.lease`.

    Calls in the block run in the catalog's lane of ingests, and as the namespace's tenant.

    Args:
        catalog: stores the lease.
        namespace: the knowledge base or collection to write.
        wait: whether to wait for another writer instead of raising.

    Raises:
        IngestRunningError: another writer holds the lease.
        ReadOnlyError, StoreError: see `Catalog.lease`.
    """
    stack = ExitStack()
    with catalog.threads.lane("ingest"), tenant(namespace.tenant):
        try:
            yield await _lease(stack, catalog, namespace, wait=wait)
        finally:
            await call(stack.close)


async def _lease(stack: ExitStack, catalog: Catalog, namespace: Namespace, *, wait: bool) -> Lease:
    pause = _FIRST_PAUSE
    while True:
        try:
            return await call(stack.enter_context, catalog.lease(namespace))
        except IngestRunningError:
            if not wait:
                raise
        # Polling, because a thread that waits for a lock cannot be cancelled.
        await asyncio.sleep(random.uniform(0, pause))
        pause = min(_GROWTH * pause, _LONGEST_PAUSE)
