"""The records of a turn: each finished task is stored as soon as it ends.

Each finished task leaves a record: a pending write of the turn's checkpoint, so that LangGraph
keeps, finds and deletes it with the thread.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lorebind_bindings.workflow.threads.serializing import encoded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import PendingWrite

    from lorebind_bindings.workflow.threads.checkpointers import ThreadedSaver

CHANNEL = "lorebind"

Record = dict[str, Any]


class MemoryJournal:
    """Records that are kept as long as the object is."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        """What is finished, by `record["key"]`."""

    async def put(self, record: Record) -> None:
        """Keep a record; of two with the same key, the later one counts.

        Raises:
            UsageError: it is not plain JSON.
        """
        encoded(record)
        self.records[record["key"]] = record


class Journal(MemoryJournal):
    """Records in a checkpoint, for the tasks of one event loop."""

    def __init__(
        self, saver: ThreadedSaver, config: RunnableConfig, records: dict[str, Record]
    ) -> None:
        """
        Args:
            saver: what keeps them.
            config: the checkpoint.
            records: what it has.
        """
        self.records = records
        self.turn: str = config["configurable"]["checkpoint_id"]
        """Names the turn."""
        self._saver, self._config = saver, config
        self._next = _Group()
        self._writer: asyncio.Task[None] | None = None

    async def put(self, record: Record) -> None:
        """Store a record; it survives a crash of the process once this returns.

        Records that are put during a write are stored together by the next write. A cancelled call
        waits for its write too, so that nothing is written after the last call has returned.

        Raises:
            UsageError: it is not plain JSON.
            StoreError: it could not be written, and nor could what was to be written with it.
        """
        group = self._next
        group.writes.append((CHANNEL, encoded(record)))
        group.records.append(record)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        try:
            await asyncio.shield(group.written)
        except asyncio.CancelledError:
            await asyncio.wait([group.written])
            raise

    async def _write(self) -> None:
        """Write group after group until nothing is left."""
        from langgraph.checkpoint.base.id import uuid6

        try:
            while self._next.writes:
                group, self._next = self._next, _Group()
                # Numbered by the time, so that they are read in the order they were written in.
                await self._write_group(group, str(uuid6()))
        finally:
            self._writer = None

    async def _write_group(self, group: _Group, task_id: str) -> None:
        try:
            await self._saver.aput_writes(self._config, group.writes, task_id)
        except Exception as error:
            group.written.set_exception(error)
            group.written.exception()  # callers that were cancelled do not ask for it
        except asyncio.CancelledError:  # the event loop ends
            group.written.cancel()
            self._next.written.cancel()
            raise
        else:
            self.records.update({record["key"]: record for record in group.records})
            group.written.set_result(None)


class _Group:
    """Records that are written together."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.writes: list[tuple[str, Any]] = []
        self.written: asyncio.Future[None] = asyncio.get_running_loop().create_future()


def records_of(writes: Iterable[PendingWrite] | None) -> dict[str, Record]:
    """The records among a checkpoint's pending writes, in the order they were written in."""
    return {value["key"]: value for _, channel, value in writes or () if channel == CHANNEL}
