"""LangGraph's checkpointers with async methods that work in any event loop.

Each of LangGraph's own async savers is tied to the event loop it was created in. The sync savers
are not, so their methods are called in the threads of their database.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar
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
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata

    from lorebind_bindings.workflow.threads.claims import Claims

P = ParamSpec("P")
R = TypeVar("R")


class ThreadSaver(BaseCheckpointSaver[str]):
    """The base of our savers, before the class of LangGraph: `class X(ThreadSaver, XSaver)`.

    It adds async methods, checks what is read, and lists and locks the threads.
    """

    name: str
    """The location, for messages."""
    claims: Claims

    def __init__(self) -> None:
        # LangGraph's class is not initialized: it would open its own connection.
        BaseCheckpointSaver.__init__(self, serde=JsonSerializer())
        # PostgreSQL may hang. Tasks may occupy all threads of the event loop, so none of those.
        self._threads = Threads(daemon=True)

    def newest(
        self, prefix: str, limit: int, before: str | None = None, after: str | None = None
    ) -> Sequence[str]:
        """Return the keys with a prefix; those whose last turn started last come first.

        Args:
            prefix: the start of the keys.
            limit: maximum number of keys.
            before: return only keys whose last turn has a smaller id.
            after: return only keys whose last turn has a larger id, the closest ones to it.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close the files and connections."""

    async def call(
        self, lane: Lane, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call a blocking function in the threads of this saver.

        The function is always called. If the caller is cancelled, it waits until the function has
        returned, so that nothing is written after the cancellation.
        """
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
            checkpoint = super().get_tuple(config)
            return None if checkpoint is None else _checked(checkpoint)

    def list(self, config: RunnableConfig | None, **options: Any) -> Iterator[CheckpointTuple]:
        with self._naming(config):
            # Read to the end, since some savers hold a lock during the iteration.
            return iter([_checked(checkpoint) for checkpoint in super().list(config, **options)])

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        # Savers store only text and numbers of the run's metadata, but `graph` is a mapping.
        graph: Any = {"graph": (config.get("metadata") or {}).get("graph")}
        return super().put(config, checkpoint, {**graph, **metadata}, new_versions)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        # A run that waits after a failure and a resume no longer counts as failed.
        past = [(ERROR, None)] if any(channel == INTERRUPT for channel, _ in writes) else []
        super().put_writes(config, [*past, *writes], task_id, task_path)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self.call("read", self.get_tuple, config)

    async def alist(
        self, config: RunnableConfig | None, **options: Any
    ) -> AsyncIterator[CheckpointTuple]:
        for checkpoint in await self.call("read", lambda: [*self.list(config, **options)]):
            yield checkpoint

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
            f"{self.name}: thread {thread!r} is damaged: {why}; start another thread, restore a "
            "backup, or move its database away with all its threads"
        )

    def with_allowlist(self, extra_allowlist: Any) -> Self:
        """Return self: the serializer never loads classes, so none need to be allowed."""
        return self


def _checked(checkpoint: CheckpointTuple) -> CheckpointTuple:
    """Return a checkpoint without past errors.

    Raises:
        ValueError, TypeError, KeyError: its row, its metadata or its writes are damaged. Checksums
            cover only their values, see `JsonSerializer`.
    """
    metadata: dict[str, Any] = {**checkpoint.metadata}
    graph = metadata["graph"] or {}
    if not (
        get_checkpoint_id(checkpoint.config) == checkpoint.checkpoint["id"]
        and isinstance(metadata["step"], int)
        and all(isinstance(text, str) for text in (metadata["thread"], *graph, *graph.values()))
    ):
        raise ValueError("its metadata differs from what was written")
    writes = [
        pending_write
        for pending_write in checkpoint.pending_writes or []
        if pending_write[1:] != (ERROR, None)
    ]
    for task_id, channel, value in writes:
        # The time of a record is part of its id.
        is_whole = isinstance(value, _KINDS.get(channel, object))
        if not is_whole or (channel == CHANNEL and not UUID(task_id)):
            raise ValueError(f"a write to {channel} differs from what was written")
    return checkpoint._replace(pending_writes=writes)


_KINDS: dict[str, type] = {CHANNEL: dict, INTERRUPT: tuple, ERROR: str}
"""The types of the values that threads are read for."""


class MemoryThreads(ThreadSaver, InMemorySaver):
    """Threads in memory. Thread-safe."""

    name = "threads in memory"

    def __init__(self) -> None:
        InMemorySaver.__init__(self, serde=JsonSerializer())
        self.claims = MemoryClaims()
        self._lock = threading.Lock()

    async def call(
        self, lane: Lane, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call a function directly; only one at a time, as event loops may run in many threads."""
        with self._lock:
            return function(*args, **kwargs)

    def newest(
        self, prefix: str, limit: int, before: str | None = None, after: str | None = None
    ) -> Sequence[str]:
        """See `ThreadSaver.newest`."""
        turns = {
            key: max(spaces[""])
            for key, spaces in self.storage.items()
            if key.startswith(prefix) and spaces.get("")
        }
        keys = sorted(turns, key=turns.__getitem__, reverse=True)
        if before is not None:
            keys = [key for key in keys if turns[key] < before]
        if after is not None:
            return [key for key in keys if turns[key] > after][-limit:]
        return keys[:limit]
