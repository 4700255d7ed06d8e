"""LangGraph's checkpointers with async methods that work in any event loop.

Each of LangGraph's own async savers is tied to the event loop it was created in. The sync savers
are not, so their methods are called in the threads of their database.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from uuid import UUID

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, get_checkpoint_id
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT

from lorebind_bindings.workflow.threads.claims import MemoryClaims
from lorebind_bindings.workflow.threads.serializing import CHANNEL, JsonSerializer
from lorebind_config.errors import LorebindError, StoreError
from lorebind_config.redaction import redacted_message
from lorebind_knowledge.plumbing.lanes import Lane, Threads, submit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata

P = ParamSpec("P")
R = TypeVar("R")


class ThreadedSaver(BaseCheckpointSaver[Any]):
    """A sync saver with async methods that can be awaited in any event loop."""

    def __init__(self, inner: BaseCheckpointSaver[Any], name: str) -> None:
        """
        Args:
            inner: the saver.
            name: its location, for messages.
        """
        super().__init__(serde=inner.serde)
        self.inner = inner
        self._name = name
        # PostgreSQL may hang. Tasks may occupy all threads of the event loop, so none of those.
        self._threads = None if isinstance(inner, MemoryThreads) else Threads(daemon=True)

    async def call(
        self, lane: Lane, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call a blocking function in the threads of this saver; directly if it is in memory.

        The function is always called. If the caller is cancelled, it waits until the function has
        returned, so that nothing is written after the cancellation.
        """
        if self._threads is None:
            return function(*args, **kwargs)
        with self._threads.lane(lane):
            work = asyncio.wrap_future(submit(function, *args, **kwargs))
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            await asyncio.wait([work])
            work.exception()  # retrieved because the cancelled caller cannot do it
            raise
        return work.result()

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        with self._naming(config):
            found = self.inner.get_tuple(config)
            return None if found is None else _checked(found)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  # LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        with self._naming(config):
            found = self.inner.list(config, filter=filter, before=before, limit=limit)
            # Read to the end, since some savers hold a lock during the iteration.
            return iter([_checked(one) for one in found])

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        # Savers store only text and numbers of the run's metadata, but `graph` is a mapping.
        graph: Any = {"graph": (config.get("metadata") or {}).get("graph")}
        return self.inner.put(config, checkpoint, {**graph, **metadata}, new_versions)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        # A run that waits after a failure and a resume no longer counts as failed.
        past = [(ERROR, None)] if any(channel == INTERRUPT for channel, _ in writes) else []
        self.inner.put_writes(config, [*past, *writes], task_id, task_path)

    def delete_thread(self, thread_id: str) -> None:
        self.inner.delete_thread(thread_id)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self.call("read", self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        def found() -> Sequence[CheckpointTuple]:
            return [*self.list(config, filter=filter, before=before, limit=limit)]

        for one in await self.call("read", found):
            yield one

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await self.call("read", self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await self.call("read", self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await self.call("read", self.delete_thread, thread_id)

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self.inner.get_next_version(current, channel)

    @contextmanager
    def _naming(self, config: RunnableConfig | None) -> Iterator[None]:
        """Name the location and the thread in errors about damaged data."""
        try:
            yield
        except LorebindError:
            raise
        except Exception as error:  # damaged rows can make LangGraph's savers raise anything
            thread = (config or {}).get("configurable", {}).get("thread_id", "").rpartition(".")[2]
            raise self.damaged(thread, redacted_message(error)) from error

    def damaged(self, thread: str, why: str) -> StoreError:
        """Return the error about a thread's damaged data."""
        return StoreError(
            f"{self._name}: thread {thread!r} is damaged: {why}; start another thread, restore a "
            "backup, or move its database away with all its threads"
        )

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> ThreadedSaver:
        """Return self: the serializer never loads classes, so none need to be allowed."""
        return self


def _checked(found: CheckpointTuple) -> CheckpointTuple:
    """Return a checkpoint without past errors.

    Raises:
        ValueError, TypeError, KeyError: its row, its metadata or its writes are damaged. Checksums
            cover only their values, see `JsonSerializer`.
    """
    metadata: dict[str, Any] = {**found.metadata}
    graph = metadata["graph"] or {}
    if not (
        get_checkpoint_id(found.config) == found.checkpoint["id"]
        and isinstance(metadata["step"], int)
        and all(isinstance(one, str) for one in (metadata["thread"], *graph, *graph.values()))
    ):
        raise ValueError("its metadata differs from what was written")
    writes = [
        pending_write
        for pending_write in found.pending_writes or []
        if pending_write[1:] != (ERROR, None)
    ]
    for task_id, channel, value in writes:
        # The time of a record is part of its id.
        is_whole = isinstance(value, _KINDS.get(channel, object))
        if not is_whole or (channel == CHANNEL and not UUID(task_id)):
            raise ValueError(f"a write to {channel} differs from what was written")
    return found._replace(pending_writes=writes)


_KINDS: dict[str, type] = {CHANNEL: dict, INTERRUPT: tuple, ERROR: str}
"""The types of the values that threads are read for."""


class MemoryThreads(InMemorySaver):
    """Threads in memory. Thread-safe."""

    name = "threads in memory"

    def __init__(self) -> None:
        super().__init__(serde=JsonSerializer())
        self.claims = MemoryClaims()
        self._turn = threading.Lock()

    def newest(
        self, prefix: str, limit: int, before: str | None = None, after: str | None = None
    ) -> Sequence[str]:
        """See `KeptThreads.newest`."""
        with self._turn:
            found = {
                key: max(spaces[""])
                for key, spaces in self.storage.items()
                if key.startswith(prefix) and spaces.get("")
            }
        keys = sorted(found, key=found.__getitem__, reverse=True)
        if before is not None:
            keys = [key for key in keys if found[key] < before]
        if after is not None:
            return [key for key in keys if found[key] > after][-limit:]
        return keys[:limit]

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        with self._turn:
            return super().get_tuple(config)

    def list(self, *args: Any, **kwargs: Any) -> Iterator[CheckpointTuple]:
        with self._turn:
            return iter([*super().list(*args, **kwargs)])

    def put(self, *args: Any) -> RunnableConfig:
        with self._turn:
            return super().put(*args)

    def put_writes(self, *args: Any) -> None:
        with self._turn:
            super().put_writes(*args)

    def delete_thread(self, thread_id: str) -> None:
        with self._turn:
            super().delete_thread(thread_id)

    def close(self) -> None:
        """Do nothing: there are no resources to release."""
