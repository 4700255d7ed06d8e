"""The records of a turn: each finished task is stored as soon as it ends.

A record is a pending write of the turn's checkpoint, so LangGraph stores, finds and deletes it
together with the thread.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lorebind_bindings.workflow.threads.serializing import CHANNEL, encoded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import PendingWrite

    from lorebind_bindings.workflow.threads.checkpointers import ThreadSaver

Record = dict[str, Any]


class Journal:
    """Records in a checkpoint, for tasks of one event loop."""

    def __init__(
        self, saver: ThreadSaver, config: RunnableConfig, records: dict[str, Record]
    ) -> None:
        """
        Args:
            saver: stores the records.
            config: identifies the checkpoint.
            records: the records that the checkpoint already has.
        """
        self.records = records
        """The records of finished tasks and answers, by `record["key"]`."""
        self.turn: str = config["configurable"]["checkpoint_id"]
        """The id of the turn."""
        self._saver, self._config = saver, config
        self._next = _Group()
        self._writer: asyncio.Task[None] | None = None

    async def put(self, record: Record) -> None:
        """Store a record, which replaces one with the same key; it then survives a crash.

        Records that are added during a write are stored together by the next write. A cancelled
        call waits for its write too, so that nothing is written after the last call has returned.

        Raises:
            UsageError: the record is not plain JSON.
            StoreError: the record, and all records of the same write, could not be stored.
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
        """Write groups until none is left."""
        from langgraph.checkpoint.base.id import uuid6

        try:
            while self._next.writes:
                group, self._next = self._next, _Group()
                # Time-ordered ids, so that records are read in the order of writing.
                await self._write_group(group, str(uuid6()))
        finally:
            self._writer = None

    async def _write_group(self, group: _Group, task_id: str) -> None:
        try:
            await self._saver.aput_writes(self._config, group.writes, task_id)
        except Exception as error:  # whatever it is, those who wait for the group get it
            group.written.set_exception(error)
            group.written.exception()  # retrieved because cancelled callers do not do it
        except asyncio.CancelledError:  # the event loop is ending
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
    """Return the records among a checkpoint's pending writes, in the order of writing."""
    return {value["key"]: value for _, channel, value in writes or () if channel == CHANNEL}
