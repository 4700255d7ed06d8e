"""Additions and deletions over the API, which may have to wait for other ingests."""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import TYPE_CHECKING, Any, TypeVar

from lorebind.server.run_events import RunEvents
from lorebind_knowledge.errors import LorebindError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from lorebind.project import Project
    from lorebind_knowledge.ingest.report import IngestReport

log = logging.getLogger("lorebind.server")

_TURN_SECONDS = 1.0
"""Seconds after which a change that has not begun counts as waiting for another ingest."""
_MOST_SECONDS = 20.0
"""Maximum seconds that an answer waits for the requested change."""

T = TypeVar("T")


class Changes:
    """Changes that continue after their request was answered with 202."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def add(
        self,
        project: Project,
        kb_id: str,
        documents: Sequence[Mapping[str, Any]],
        workflow: str | None,
    ) -> IngestReport | None:
        """Add documents, and return the report of their ingest; None if it has not ended.

        Raises:
            LorebindError: see `Project.aadd_documents`.
        """
        run_id = uuid.uuid4().hex[:12]
        events = RunEvents(run_id)
        project.knowledge.events.subscribe(events)

        async def adding() -> IngestReport:
            try:
                return await project.aadd_documents(
                    kb_id, documents, workflow=workflow, run_id=run_id
                )
            finally:
                project.knowledge.events.unsubscribe(events)
                events.end()

        task = self._begin(adding())
        begun = asyncio.ensure_future(events.first())
        await asyncio.wait({task, begun}, timeout=_TURN_SECONDS, return_when="FIRST_COMPLETED")
        has_turn = begun.done()
        begun.cancel()
        return task.result() if has_turn and await self._ended(task) else None

    async def in_time(self, change: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of a change; None if it takes longer and continues in the
        background."""
        task = self._begin(change)
        return task.result() if await self._ended(task) else None

    async def stop(self) -> None:
        """Cancel running changes, which the next ingest completes."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

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
