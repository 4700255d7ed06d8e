"""Deletions over the API, which may have to wait for other ingests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from lorebind_config.errors import LorebindError

log = logging.getLogger("lorebind.server")

_MOST_SECONDS = 20.0
"""Maximum seconds that an answer waits for the requested change."""

T = TypeVar("T")


class Changes:
    """Changes that continue after their request was answered with 202."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def in_time(self, change: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of a change; None if it takes longer and continues in the
        background."""
        task = self._begin(change)
        return task.result() if await self._ended(task) else None

    async def stop(self, seconds: float) -> None:
        """Cancel running changes, and wait at most `seconds` for their end.

        The next ingest completes them.
        """
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=seconds)

    def _begin(self, change: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(change)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    async def _ended(self, task: asyncio.Task[Any]) -> bool:
        await asyncio.wait({task}, timeout=_MOST_SECONDS)
        if task.done():
            task.result()
        return task.done()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            words = str(error) if isinstance(error, LorebindError) else type(error).__name__
            log.warning("a change failed: %s", words)
