"""The work on a batch: embed its texts, store their vectors, and mark it as done."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
import uuid
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from lorebind_config.errors import EmbedderError, LorebindError, StoreError
from lorebind_config.namespace import tenant
from lorebind_knowledge.catalog.batches import SECONDS, Batches, release_texts
from lorebind_knowledge.catalog.embedding_cache import keys_of
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.resilience.failures import classify
from lorebind_knowledge.scale.pool import VERSION

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from lorebind_knowledge.catalog.batches import About, Batch
    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.database.sql import Sql

_RENEWALS = 3
"""Renewals of a batch during `SECONDS`."""
_OTHERS_SECONDS = 0.1
"""Seconds between two looks at texts that other batches hold."""
_CONNECTIONS = 2
"""Maximum number of connections of a worker to the catalog, whose statements are short."""
_LIMITED_SECONDS = 5.0
"""Seconds to wait when a provider limits its callers and does not say how long."""

log = logging.getLogger("lorebind.worker")


class Work:
    """Embeds the batches of one catalog; safe to call for several batches at the same time."""

    def __init__(self, catalog: Catalog, embedders: Mapping[str, Any]) -> None:
        """
        Args:
            catalog: the catalog, which must be in PostgreSQL.
            embedders: the embedders of both kinds by `key_of`.
        """
        assert catalog.postgres is not None
        self._threads = catalog.threads
        catalog.postgres.limit_connections(_CONNECTIONS)
        self._cache, self._batches = catalog.embeddings, Batches(catalog.postgres)
        self.embedders = embedders
        self.name = f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"
        self._limited: dict[str, float] = {}
        """By embedder: when its provider may be called again."""
        self._stopping = asyncio.Event()
        self._refused: set[About] = set()

    async def __call__(self, batch_id: str) -> bool:
        """Embed a batch, unless another worker does, and raise nothing.

        Returns:
            Whether the batch needs no further delivery.
        """
        try:
            batch = await call(self._batches.take, batch_id, self.name, self.embedders.keys())
            if batch is None:
                return True
            async with self._held(batch) as lost:
                return await self._do(batch, lost)
        except StoreError as error:  # the ingest submits it again after the outage
            log.warning("worker: a batch was not embedded: %s", error)
            return True

    def stop(self) -> None:
        """Give back batches that only wait for a provider or for other batches."""
        self._stopping.set()

    async def refuse(self) -> None:
        """Log which batches wait that this worker cannot embed, each reason once."""
        for about in await call(self._batches.unserved, self.embedders.keys()):
            if about in self._refused:
                continue
            self._refused.add(about)
            why = (
                f"they wait for workers of Lorebind {about.version}, and this is {VERSION}"
                if about.version != VERSION
                else "the project of this worker has no such embedder"
            )
            log.warning(
                "worker: does not embed texts of knowledge base %r for embedder %s: %s",
                about.kb,
                about.embedder,
                why,
            )

    async def _do(self, batch: Batch, lost: asyncio.Event) -> bool:
        try:
            # Threads of their own: blocking calls must not delay the renewal of batches.
            with tenant(batch.about.tenant), self._threads.lane("embed"):
                if await self._embed(batch, lost):
                    return True
        except StoreError:
            raise
        except Exception as error:  # the code of a project may raise anything
            if not isinstance(error, LorebindError):
                log.exception("worker: embedder %s failed", batch.about.embedder)
            about = {"kind": type(error).__name__, "message": str(error)}
            await call(self._batches.fail, batch.id, self.name, about)
            return True
        await call(self._batches.release, batch.id, self.name)
        return False

    async def _embed(self, batch: Batch, lost: asyncio.Event) -> bool:
        """Embed the texts of a batch that no other batch holds, then wait for the others.

        Returns:
            Whether that is done, or in other hands; if not, this worker has to stop before.
        """
        embedder = self.embedders[batch.embedder]
        texts = dict(zip(keys_of(embedder, batch.texts), batch.texts, strict=True))
        left = set(texts)
        while True:
            ours, left = await call(self._batches.claim, batch.id, left)
            if ours:
                new = {key: text for key, text in texts.items() if key in ours}
                if not await self._store(batch, embedder, new, lost, done=not left):
                    return lost.is_set()
            elif not left:
                # Other batches have stored all vectors, so no write of ours has marked this one as
                # done.
                await call(self._batches.finish, batch.id)
            if not left:
                return True
            if await self._paused(_OTHERS_SECONDS, lost):
                return lost.is_set()

    async def _store(
        self,
        batch: Batch,
        embedder: Any,
        new: Mapping[str, str],
        lost: asyncio.Event,
        *,
        done: bool,
    ) -> bool:
        """Embed texts and store their vectors, as soon as the provider allows it.

        A provider that limits its callers is no failure of a batch: it waits as long as it has to.
        Returns False if this worker has to stop before, or others have the batch.
        """

        def also(sql: Sql) -> None:
            release_texts(sql, batch.id, new.keys(), done=done)

        while True:
            while (wait := self._limited.get(batch.embedder, 0.0) - time.monotonic()) > 0:
                if await self._paused(wait, lost):
                    return False
            try:
                await self._cache.store_new(embedder, new, also)
                return True
            except EmbedderError as error:
                failure = classify(error)
                if not failure.limited:
                    raise
                wait = failure.wait or _LIMITED_SECONDS
                # For all batches of the embedder: the provider would refuse the others too.
                self._limited[batch.embedder] = time.monotonic() + wait

    async def _paused(self, seconds: float, lost: asyncio.Event) -> bool:
        """Wait; return early, and True, if this worker stops or has lost the batch."""
        ends = [asyncio.create_task(event.wait()) for event in (self._stopping, lost)]
        done, _ = await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        return bool(done)

    @asynccontextmanager
    async def _held(self, batch: Batch) -> AsyncIterator[asyncio.Event]:
        """Renew a batch within the block; yield an event that is set if nobody waits for it."""
        lost = asyncio.Event()

        async def renew() -> None:
            while not lost.is_set():
                await asyncio.sleep(SECONDS / _RENEWALS)
                # After an outage, at worst another worker embeds the same texts, and the vectors of
                # one of them are kept.
                with suppress(StoreError):
                    if not await call(self._batches.renew, batch.id, self.name):
                        lost.set()

        renewing = asyncio.create_task(renew())
        try:
            yield lost
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
