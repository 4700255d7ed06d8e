"""A worker: a process that embeds the batches of all catalogs of a project."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lorebind_config.errors import StoreError
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.scale.work import Work

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.scale.engine import Engine

_REFUSE_SECONDS = 2.0
"""Seconds between two looks at batches that this worker cannot embed."""


class Worker:
    """Embeds batches until it is cancelled."""

    def __init__(
        self, catalogs: Sequence[tuple[Catalog, Engine, Mapping[str, Any]]], concurrency: int
    ) -> None:
        """
        Args:
            catalogs: each with its engine, and the embedders to serve by `key_of`.
            concurrency: maximum number of batches at the same time, for each embedder.
        """
        self._served = [
            (engine, Work(catalog, embedders), _slots(embedders, concurrency))
            for catalog, engine, embedders in catalogs
        ]

    async def run(self, *, once: bool = False) -> None:
        """Serve until it is cancelled; it then ends the batches in hand.

        Args:
            once: whether to return when no batch is waiting.

        Raises:
            StoreError: a catalog cannot be used for workers. An outage later raises nothing.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                serving = [
                    tasks.create_task(self._serve(engine, work, slots, once=once))
                    for engine, work, slots in self._served
                ]
                refusing = tasks.create_task(self._refuse())
                await asyncio.gather(*serving)
                refusing.cancel()
        except BaseExceptionGroup as group:
            # Callers handle errors of Lorebind, which a group would hide from them.
            raise group.exceptions[0] from group.exceptions[0].__cause__

    def stop(self) -> None:
        """Let batches end early that only wait; call it before `run` is cancelled."""
        for _, work, _ in self._served:
            work.stop()

    async def _serve(
        self, engine: Engine, work: Work, slots: Mapping[str, int], *, once: bool
    ) -> None:
        returned: dict[str, list[str]] = {}

        async def embed(key: str, batch: str) -> None:
            if not await work(batch):
                returned.setdefault(key, []).append(batch)

        try:
            await engine.serve(embed, slots, once=once)
        finally:
            for key, batches in returned.items():
                with suppress(StoreError):  # the ingest submits them again, only later
                    await call(engine.submit, key, batches)

    async def _refuse(self) -> None:
        while True:
            for _, work, _ in self._served:
                with suppress(StoreError):
                    await work.refuse()
            await asyncio.sleep(_REFUSE_SECONDS)


def _slots(embedders: Mapping[str, Any], concurrency: int) -> dict[str, int]:
    return {
        key: min(concurrency, max(embedder.max_concurrent, 1))
        for key, embedder in embedders.items()
    }
