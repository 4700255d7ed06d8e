"""Runs of workflows in the background, which outlive the connection of their client."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from lorebind.plain_data import as_data
from lorebind.server.background_runs import BackgroundRuns
from lorebind.server.state.run_events import StoredEvent, StoredEvents
from lorebind.server.state.runs import WORKFLOW_RUNS
from lorebind.server.workflow_events import EventWriter, WorkflowEvents
from lorebind_bindings.workflow.how_to_resume import served_at
from lorebind_config.errors import LorebindError, NotFoundError, TaskError
from lorebind_config.namespace import Namespace, tenant
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.records import Overview

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from lorebind.project import Project
    from lorebind.server.background_runs import UnderWay
    from lorebind.server.state.runs import RequestedRun, RequestedRuns
    from lorebind_bindings import RunResult, RunStream, ThreadInfo
    from lorebind_knowledge.database.databases import Database

Action: TypeAlias = Literal["run", "resume", "replay"]

_POLL_SECONDS = 0.3
"""Seconds between two looks at the events of another server, or at a thread that it runs."""
_LOOK_SECONDS = 1.0
"""Seconds after which the reader of a run here looks whether another server has ended it."""
_EVENTS_AT_ONCE = 500
_PRUNE_SECONDS = 60.0
"""Seconds between two deletions of old runs and events."""


class WorkflowRequest(NamedTuple):
    """A request to run, resume or replay a workflow."""

    workflow: str
    thread_id: str
    """The thread of the run; of a replay, the new one."""
    action: Action
    arguments: Mapping[str, Any]
    """The other arguments of the method of `Project`, by name."""

    def stream(self, project: Project) -> RunStream:
        """Return the run, which begins when it is read."""
        workflow, thread_id, action, arguments = self
        if action == "run":
            return project.run_stream(workflow, thread_id=thread_id, **arguments)
        if action == "resume":
            return project.resume_stream(workflow, thread_id, **arguments)
        return project.replay_stream(workflow, new_id=thread_id, **arguments)


class WorkflowRuns(BackgroundRuns[WorkflowEvents]):
    """Runs, resumes and replays workflows."""

    name = "runs of workflows"
    refusals = (LorebindError,)
    cancel_seconds = 0.5

    def __init__(
        self,
        runs: RequestedRuns,
        database: Database,
        project: Project,
        place: str,
        log_failure: Callable[[str, BaseException], None],
    ) -> None:
        """
        Args:
            runs: the stored runs.
            database: stores their events.
            project: the project.
            place: the path of the workflows, for requests in messages.
            log_failure: logs unexpected errors.
        """
        super().__init__(runs, log_failure)
        self.most_requested = project.config.project.server.background_runs
        self._project, self._place = project, place
        self._stored = StoredEvents(database, project.name)
        self._writer = EventWriter(self._stored, runs.owner)
        self._pruned = -_PRUNE_SECONDS
        self._answered = set[str]()
        """The ids of runs that have waited, and whose threads have completed since."""

    def namespace(self, workflow: str) -> Namespace:
        """Return the namespace of a workflow's runs, for the tenant of this call.

        Raises:
            NotFoundError: no such workflow.
        """
        return self._project.config.namespace(
            WORKFLOW_RUNS, self._project.config.workflow(workflow).id
        )

    async def begin(
        self, request: WorkflowRequest, key: str | None = None, digest: str = ""
    ) -> RequestedRun:
        """Carry out a request; when this returns, the run has begun.

        Args:
            request: the request.
            key: as for `request`.
            digest: as for `request`.

        Raises:
            KeyTakenError, ProblemError: as for `request`.
            LorebindError: the run could not begin. Nothing is stored.
        """
        namespace = self.namespace(request.workflow)
        thread = await self._thread(request.workflow, request.thread_id)
        data = {**request._asdict(), "since": _mark(thread)}
        return await self.request(namespace, data, key, digest, alone=False)

    async def cancel(self, run: RequestedRun) -> None:
        await super().cancel(run)
        # A function of a task cannot be interrupted, so the status does not wait for it.
        await call(partial(self.runs.finish, run, "cancelled", {}, ours=False))
        if (events := self.events(run)) is not None:
            events.wake()

    async def follow(
        self, run: RequestedRun, number: int
    ) -> AsyncIterator[StoredEvent | RequestedRun]:
        """Yield the stored events of a run after a number, then the run when it has ended.

        Ends early if the server stops.
        """
        while not self._is_stopping:
            events = self.events(run)
            changed = None if events is None else events.changed
            current = await call(partial(self.runs.find, run.namespace, run.run_id))
            run = current or run
            # Read after the status, because no event is stored after the end.
            rows = await call(self._stored.after, run, number, _EVENTS_AT_ONCE)
            for row in rows:
                yield row
                number = row.number
            if rows:
                continue
            if run.finished_at is not None:
                yield run
                return
            if changed is None:
                await asyncio.sleep(_POLL_SECONDS)
            else:
                await _set_within(changed, _LOOK_SECONDS)

    def overview(self) -> Overview:
        """Return how many runs of all tenants have not ended, and how many wait. It blocks.

        Raises:
            StoreError, MissingDependencyError: a database cannot be read.
        """
        workflows = self._project.config.workflows
        counts: dict[tuple[str, str], int] = {}
        for workflow in workflows:
            counts |= {(workflow, "running"): 0, (workflow, "waiting"): 0}
        waiting = set[tuple[Namespace, str]]()
        runs = self.runs.open_or_waiting()
        self._answered &= {run.run_id for run in runs}
        for run in runs:
            if run.namespace.kb not in workflows:  # it is declared no more
                continue
            if run.finished_at is None:
                counts[run.namespace.kb, "running"] += 1
            elif run.run_id not in self._answered and self._waits(run):
                waiting.add((run.namespace, run.request["thread_id"]))
        for namespace, _ in waiting:
            counts[namespace.kb, "waiting"] += 1
        return Overview(background_runs=counts)

    def _waits(self, run: RequestedRun) -> bool:
        """Whether the thread of a run that has waited still waits: others may have answered."""
        status = "completed"
        with tenant(run.namespace.tenant), suppress(NotFoundError):
            status = self._project.thread(run.namespace.kb, run.request["thread_id"]).status
        if status == "completed":
            self._answered.add(run.run_id)
        return status in ("waiting", "paused")

    async def last_number(self, run: RequestedRun) -> int:
        """Return the number of the last stored event of a run; 0 if there is none."""
        return await call(self._stored.last, run)

    def new_events(self, run: RequestedRun) -> WorkflowEvents:
        return WorkflowEvents(run, self._writer)

    async def carry_out(self, under_way: UnderWay[WorkflowEvents]) -> tuple[str, Mapping[str, Any]]:
        served_at.set(self._place)
        events = under_way.events
        if under_way.waits:
            await events.continue_numbers()
            stream = await self._rest_of(under_way.run)
        else:
            stream = self._stream(under_way.run)
        try:
            result = await self._read(stream, under_way)
        finally:
            await events.stored()
        status = "waiting" if result.status == "paused" else result.status
        return status, {"result": as_data(result)}

    async def tidy(self) -> None:
        if time.monotonic() - self._pruned >= _PRUNE_SECONDS:
            await call(self._stored.prune)
            self._pruned = time.monotonic()

    async def _read(
        self, stream: RunStream | RunResult, under_way: UnderWay[WorkflowEvents]
    ) -> RunResult:
        from lorebind_bindings import RunStream

        if not isinstance(stream, RunStream):
            return stream
        async with aclosing(stream.__aiter__()) as emitted:
            async for event in emitted:
                if event.type == "run_end":  # stored with the end of the run, also for readers
                    under_way.outcome["run_end"] = dict(event.data)
                else:
                    under_way.events.add(event)
        return stream.result

    def _stream(self, run: RequestedRun) -> RunStream:
        fields = {name: run.request[name] for name in WorkflowRequest._fields}
        return WorkflowRequest(**fields).stream(self._project)

    async def _rest_of(self, run: RequestedRun) -> RunStream | RunResult:
        """Return what is left of a run whose server has ended, or the result if that is nothing.

        Finished tasks do not run again. A thread that waits or is paused is not resumed.
        """
        workflow, thread_id = run.namespace.kb, run.request["thread_id"]
        thread = await self._thread(workflow, thread_id)
        while thread is not None and thread.status == "running":  # its server may still be ending
            await asyncio.sleep(_POLL_SECONDS)
            thread = await self._thread(workflow, thread_id)
        if thread is None or _mark(thread) == run.request["since"]:
            return self._stream(run)
        if thread.status == "failed":
            raise TaskError(thread.error, task="", path="", thread_id=thread_id)
        if thread.status != "interrupted":
            return await self._project.aresult(workflow, thread_id)
        before = run.request["arguments"].get("interrupt_before", ())
        return self._project.resume_stream(workflow, thread_id, interrupt_before=before)

    async def _thread(self, workflow: str, thread_id: str) -> ThreadInfo | None:
        with suppress(NotFoundError):
            return await self._project.athread(workflow, thread_id)
        return None


def _mark(thread: ThreadInfo | None) -> list[str] | None:
    """Return what differs as soon as a run has written to a thread."""
    return None if thread is None else [thread.turn, thread.updated]


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
