"""Workflow threads: their status, their finished tasks, and the lock of the run that uses one."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from lorebind_bindings.workflow.answers import answer_to, passed_key
from lorebind_bindings.workflow.how_to_resume import how_to_list
from lorebind_bindings.workflow.threads.journal import Journal, Record, records_of
from lorebind_bindings.workflow.threads.serializing import CHANNEL
from lorebind_config.checks.template_checks import refuse_unset
from lorebind_config.errors import NotFoundError, Suggestion, ThreadRefusedError, UsageError
from lorebind_config.namespace import digest
from lorebind_config.plugins import import_extra
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.plumbing.lanes import Threads
from lorebind_knowledge.stores.make import catalog_database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

    from lorebind_bindings.workflow.threads.checkpointers import ThreadSaver
    from lorebind_config.declarations.vector_dbs import VectorDBDeclaration
    from lorebind_config.declarations.workflows import CheckpointerDeclaration
    from lorebind_config.templates import Environment
    from lorebind_knowledge.database.databases import PostgresDatabase
    from lorebind_knowledge.database.postgres_address import PostgresAddress

_LONGEST_ID = 200
_READABLE = 40


class Thread(NamedTuple):
    """The identity of a thread: four names that are unique together."""

    tenant: str
    project: str
    workflow: str
    id: str
    tenancy_required: bool = False
    """Whether commands must name the tenant, also `default`. It is no part of the key."""

    @property
    def key(self) -> str:
        """The thread id that LangGraph uses."""
        # The digest tells threads apart; the readable part is for errors about damaged rows.
        readable = re.sub(r"[^A-Za-z0-9]+", "-", self.id)[:_READABLE]
        return f"{self.prefix}{digest(self.id)[:32]}.{readable}"

    @property
    def prefix(self) -> str:
        """The common prefix of the keys of all threads of this workflow and tenant."""
        return f"{digest(self.tenant, self.project, self.workflow)[:32]}."

    @property
    def config(self) -> RunnableConfig:
        """The config to run a graph with. Callers may add to `metadata`, for example `graph`."""
        return {
            "configurable": {"thread_id": self.key},
            "metadata": {
                "tenant": self.tenant,
                "project": self.project,
                "workflow": self.workflow,
                "thread": self.id,
            },
        }

    @property
    def how_to_list(self) -> Suggestion:
        """The command that lists the threads of this workflow and tenant."""
        required = self.tenancy_required
        return how_to_list(self.workflow, self.tenant, tenancy_required=required)

    def check(self) -> None:
        """Check that the id is printable and of a valid length.

        Raises:
            UsageError: the id is invalid.
        """
        if not self.id.strip() or not self.id.isprintable() or len(self.id) > _LONGEST_ID:
            raise UsageError(
                f"{self.id[:_LONGEST_ID]!r} cannot be the id of a thread; "
                f"use 1 to {_LONGEST_ID} printable characters",
                at=("thread_id",),
            )


@dataclass(frozen=True, slots=True)
class ThreadInfo:
    """The status of a thread."""

    thread_id: str
    workflow: str
    status: str
    """`completed`, `waiting` (for answers), `paused`, `failed`, `running`, or `interrupted`: it
    has started but is no longer running."""
    updated: str
    """The time at which the last turn started or the last record was written, in ISO 8601."""
    waiting: list[dict[str, Any]]
    """`task`, `path`, `prompt` and `schema` of each open question."""
    paused: list[str]
    """The paths of the tasks before which it is paused."""
    turn: str
    """The id of the last turn. Turns that started later have larger ids, in all threads."""
    graph: dict[str, str] | None
    """A hash per task path, of the workflow at the start of the last turn."""
    error: str = ""
    """The error of a failed run."""
    command: str = ""
    """The command in the error, if it names one."""


class Turn(NamedTuple):
    """One input to a thread."""

    state: dict[str, Any]
    """The values of the channels after the input was added."""
    records: dict[str, Record]
    """The records by key, in the order of writing."""


class ThreadStore:
    """The threads in the location of one checkpointer. Usable in any event loop.

    Methods that read a thread raise NotFoundError if it does not exist, except `find`.
    """

    def __init__(self, saver: ThreadSaver) -> None:
        self.saver = saver
        """The checkpointer to compile graphs with."""

    @asynccontextmanager
    async def claimed(self, thread: Thread) -> AsyncIterator[ThreadInfo | None]:
        """Lock a thread for the block, so that no other process or task can run it.

        Yields:
            The status of the thread; None if it is new.

        Raises:
            UsageError: the id is invalid.
            ThreadRefusedError: the thread is running.
            StoreError: the location cannot be reached or written.
        """
        thread.check()
        # A list, because a cancelled call still takes the claim, which is then freed below.
        claims, taken = self.saver.claims, []

        def take() -> None:
            taken.append(claims.take(thread.key))

        try:
            await self.saver.call("wait", take)
            if taken != [True]:
                raise ThreadRefusedError(
                    f"thread {thread.id!r} of workflow {thread.workflow!r} is running; wait until "
                    f"it ends (`{thread.how_to_list}` shows it), or start another one",
                    suggestions=[thread.how_to_list],
                )
            yield await self._info(thread, thread.key, running=False)
        finally:
            if taken == [True]:
                await self.saver.call("wait", claims.free, thread.key)

    async def find(self, thread: Thread) -> ThreadInfo | None:
        """Return the status of a thread; None if this tenant's workflow has no such thread."""
        running = await self.saver.call("read", self.saver.claims.is_held, thread.key)
        return await self._info(thread, thread.key, running=running)

    async def list(
        self,
        tenant: str,
        project: str,
        workflow: str,
        limit: int = 100,
        before: str | None = None,
        after: str | None = None,
    ) -> list[ThreadInfo]:
        """Return the threads of a tenant's workflow, newest first.

        Args:
            tenant, project, workflow: the owner of the threads.
            limit: maximum number of threads.
            before: return only threads with a smaller `turn`.
            after: return only threads with a larger `turn`, the closest ones to it.
        """
        any_of_them = Thread(tenant, project, workflow, "")
        find = partial(self.saver.newest, any_of_them.prefix, limit, before, after)
        keys = await self.saver.call("read", find)
        infos = []
        for key in keys:
            running = await self.saver.call("read", self.saver.claims.is_held, key)
            infos.append(await self._info(any_of_them, key, running=running))
        return sorted(filter(None, infos), key=lambda info: info.updated, reverse=True)

    async def journal(self, thread: Thread) -> Journal:
        """Return the journal of the newest checkpoint."""
        newest = await self._newest(thread)
        return Journal(self.saver, newest.config, records_of(newest.pending_writes))

    async def turns(self, thread: Thread) -> Sequence[Turn]:
        """Return all turns of a thread, oldest first."""
        checkpoints = [checkpoint async for checkpoint in self.saver.alist(_config(thread.key))]
        if not checkpoints:
            raise not_found(thread)
        return [
            Turn(
                checkpoint.checkpoint["channel_values"],
                records_of(checkpoint.pending_writes),
            )
            for checkpoint in reversed(checkpoints)
            if checkpoint.checkpoint["channel_values"].get("status") == "running"
        ]

    async def state(self, thread: Thread) -> dict[str, Any]:
        """Return the values of the channels in the newest checkpoint."""
        return (await self._newest(thread)).checkpoint["channel_values"]

    async def begin_again(self, thread: Thread) -> None:
        """Clear the error of a failed thread: if it is killed now, its status is `interrupted`.

        LangGraph stores the error next to the checkpoint and cannot delete it."""
        from langgraph.checkpoint.serde.types import ERROR

        newest = await self._newest(thread)
        for task_id, channel, _ in newest.pending_writes or ():
            if channel == ERROR:
                await self.saver.aput_writes(newest.config, [(ERROR, "")], task_id)

    async def close(self) -> None:
        """Close the files and connections."""
        await self.saver.call("read", self.saver.close)

    async def _newest(self, thread: Thread) -> CheckpointTuple:
        newest = await self.saver.aget_tuple(_config(thread.key))
        if newest is None:
            raise not_found(thread)
        return newest

    async def _info(self, thread: Thread, key: str, *, running: bool) -> ThreadInfo | None:
        newest = await self.saver.aget_tuple(_config(key))
        return None if newest is None else _info_of(newest, thread, running=running)


async def open_threads(
    declaration: CheckpointerDeclaration,
    environment: Environment,
    beside: VectorDBDeclaration | None = None,
) -> ThreadStore:
    """Return the store of threads that a checkpointer declares.

    Args:
        declaration: the checkpointer.
        environment: the environment of the project.
        beside: a vector database whose catalog is in PostgreSQL; the threads are beside it, and not
            where the checkpointer says.

    Raises:
        MissingDependencyError: an extra is missing; the message names it.
        MissingVariableError: a variable that the declaration uses is not set.
        StoreError: PostgreSQL cannot be reached. A file is opened only when it is needed.
    """
    with Threads().lane("wait"):  # PostgreSQL may hang
        return ThreadStore(await call(_open, declaration, environment, beside))


def _open(
    declaration: CheckpointerDeclaration,
    environment: Environment,
    beside: VectorDBDeclaration | None,
) -> ThreadSaver:
    refuse_unset(declaration, environment)
    purpose = "storing workflow threads"
    import_extra("langgraph.checkpoint.base", extra="workflow", purpose=purpose)
    if beside is not None:
        catalog = catalog_database(beside, environment)
        return _in_postgres(catalog.address, purpose, catalog)
    if declaration.type == "memory":
        from lorebind_bindings.workflow.threads.checkpointers import MemoryThreads

        return MemoryThreads()
    if declaration.type == "sqlite":
        import_extra("langgraph.checkpoint.sqlite", extra="workflow", purpose=purpose)
        from lorebind_bindings.workflow.threads.sqlite_threads import SqliteThreads

        return SqliteThreads(environment.root / environment.fill(declaration.path))
    from lorebind_knowledge.database.postgres_address import PostgresAddress

    return _in_postgres(PostgresAddress(environment.fill(declaration.dsn)), purpose)


def _in_postgres(
    address: PostgresAddress, purpose: str, beside: PostgresDatabase | None = None
) -> ThreadSaver:
    import_extra("langgraph.checkpoint.postgres", extra="postgres", purpose=purpose)
    from lorebind_bindings.workflow.threads.postgres_threads import PostgresThreads

    return PostgresThreads(address, beside)


def _config(key: str) -> RunnableConfig:
    return {"configurable": {"thread_id": key, "checkpoint_ns": ""}}


def not_found(thread: Thread) -> NotFoundError:
    return NotFoundError(
        f"workflow {thread.workflow!r} has no thread {thread.id!r}; "
        f"`{thread.how_to_list}` lists its threads",
        suggestions=[thread.how_to_list],
    )


def _info_of(newest: CheckpointTuple, thread: Thread, *, running: bool) -> ThreadInfo:
    from langgraph.checkpoint.serde.types import ERROR, INTERRUPT

    writes = newest.pending_writes or []
    metadata: dict[str, Any] = {**newest.metadata}
    records = records_of(writes)
    interrupts = [
        interrupt.value
        for _, channel, value in writes
        if channel == INTERRUPT
        for interrupt in value
    ]
    waiting = [task for interrupt in interrupts for task in interrupt.get("waiting", ())]
    waiting = [question for question in waiting if answer_to(question, records) is None]
    paused = [path for interrupt in interrupts for path in interrupt.get("paused", ())]
    paused = [path for path in paused if passed_key(path) not in records]
    error = next((value for _, channel, value in writes if channel == ERROR), "")
    failures = [record["error"] for record in records.values() if record.get("error")]
    commands = [failure["command"] for failure in failures if "command" in failure]
    values = newest.checkpoint["channel_values"]
    # A checkpoint with the source `input` stores the new input with the state of the previous turn.
    completed = metadata.get("source") != "input" and values.get("status") == "completed"
    came_to = {
        "running": running,
        "failed": bool(error),
        "waiting": bool(waiting),
        "paused": bool(paused),
        "completed": completed,
    }
    return ThreadInfo(
        thread_id=metadata.get("thread", thread.id),
        workflow=thread.workflow,
        status=next((status for status, so in came_to.items() if so), "interrupted"),
        updated=_updated(newest),
        waiting=waiting,
        paused=paused,
        turn=newest.checkpoint["id"],
        graph=metadata.get("graph"),
        error=error.removeprefix("TaskFailed: "),  # an internal name
        command=next((command for command in commands if command in error), ""),
    )


def _updated(newest: CheckpointTuple) -> str:
    began = datetime.fromisoformat(newest.checkpoint["ts"])
    times = [
        _time_of(task_id)
        for task_id, channel, _ in newest.pending_writes or []
        if channel == CHANNEL
    ]
    return max([began, *times]).isoformat()


def _time_of(task_id: str) -> datetime:
    """Return when a group was written: UUIDs of version 6 count 100 ns steps since 1582-10-15."""
    digits = task_id.replace("-", "")
    ticks = int(digits[:12] + digits[13:16], 16)
    return datetime(1582, 10, 15, tzinfo=UTC) + timedelta(microseconds=ticks // 10)
