"""Requested ingests: run, watch, cancel and resume them."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from lorebind.plain_data import as_data
from lorebind.server.failure_log import OutageLog
from lorebind.server.problems import problem_of
from lorebind.server.run_events import RunEvents
from lorebind.server.state.runs import BEAT_SECONDS
from lorebind_config.errors import (
    ConfigurationError,
    IngestRunningError,
    LorebindError,
    NotFoundError,
    UsageError,
)
from lorebind_config.namespace import Namespace, current_tenant, tenant
from lorebind_knowledge.documents.changing import ingest_added
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from lorebind.project import Project
    from lorebind.server.state.runs import RequestedRun, RequestedRuns

log = logging.getLogger("lorebind.server")

_BEGIN_SECONDS = 5.0
"""Seconds that a request waits until its ingest begins or is refused."""

_TURN_SECONDS = 1.0
"""Seconds that a request waits for the run of its documents to begin."""
_MOST_SECONDS = 20.0
"""Seconds that it then waits for the end of the run."""

_RUNS_REMEMBERED = 16
"""Number of ended runs whose events are kept."""
_REFUSED = (IngestRunningError, UsageError, NotFoundError, ConfigurationError)
"""The errors of an ingest that could not begin."""


class Ingests:
    """Runs requested ingests, one per knowledge base at a time."""

    def __init__(
        self,
        runs: RequestedRuns,
        project_for: Callable[[str], Awaitable[Project]],
        log_failure: Callable[[str, BaseException], None],
    ) -> None:
        """
        Args:
            runs: the stored runs.
            project_for: returns the project as a tenant sees it.
            log_failure: logs unexpected errors.
        """
        self.runs = runs
        self._log_failure = log_failure
        self._seen_by = project_for
        self._under_way: dict[str, _UnderWay] = {}
        self._ended: dict[str, RunEvents] = {}
        """The events of the latest runs here, for clients that ask after a short run has ended."""
        self._watching: asyncio.Task[None] | None = None
        self._is_stopping = False
        what = "the state of the server"
        self._outages = OutageLog(f"{what} cannot be reached", f"{what} can be reached again")

    async def request(
        self,
        namespace: Namespace,
        request: Mapping[str, Any],
        key: str | None = None,
        digest: str = "",
    ) -> RequestedRun:
        """Request a run as `RequestedRuns.request` does; when it returns, a new run has begun.

        Raises:
            KeyTakenError, UnderWayError: another run has the key or the knowledge base.
            IngestRunningError: another process ingests the knowledge base. Nothing is stored.
            UsageError, NotFoundError: the request is not valid. Nothing is stored.
        """
        while True:
            run, is_new = await call(self.runs.request, namespace, request, key, digest)
            under_way = self._start(run) if is_new else self._under_way.get(run.run_id)
            if under_way is not None:
                await under_way.begun(_BEGIN_SECONDS)
                if under_way.is_refused and under_way.error is not None:
                    raise under_way.error
                return run
            if await call(partial(self.runs.find, namespace, run.run_id)) is not None:
                return run
            # The first request with the key was refused in the meantime; this one tries again.

    async def add(self, namespace: Namespace, request: Mapping[str, Any]) -> RequestedRun:
        """Begin a run for added documents, after other ingests of the knowledge base.

        If the server stops or is killed, the next one resumes the run.

        Returns:
            The run; it has not ended if another ingest is running, or if it takes long.

        Raises:
            LorebindError: the run failed.
        """
        run, _ = await call(partial(self.runs.request, namespace, request, alone=False))
        under_way = self._start(run, waits=True)
        await under_way.begun(_TURN_SECONDS)
        if under_way.task.done() or under_way.events.last:
            run = await self.ended(run, _MOST_SECONDS)
        if under_way.error is not None:
            raise under_way.error
        return run

    async def ended(self, run: RequestedRun, seconds: float) -> RequestedRun:
        """Return the current state of a run after it ends, or after this time."""
        deadline = time.monotonic() + seconds
        while run.finished_at is None and time.monotonic() < deadline:
            here = self._under_way.get(run.run_id)
            if here is not None:
                await asyncio.wait({here.task}, timeout=deadline - time.monotonic())
            else:
                # Another server works on it, and tells its end only by the stored run.
                await asyncio.sleep(min(0.5, max(0.0, deadline - time.monotonic())))
            current = await call(partial(self.runs.find, run.namespace, run.run_id))
            run = current or run
            if self._is_stopping:
                break
        return run

    async def cancel(self, run: RequestedRun) -> None:
        """Cancel a run, on whichever server it runs."""
        await call(self.runs.cancel, run)
        here = self._under_way.get(run.run_id)
        if here is not None:
            here.task.cancel()
            await asyncio.wait({here.task}, timeout=5)  # third-party code may hang

    def events(self, run: RequestedRun) -> RunEvents | None:
        """Return the events of a run, if it runs here or was one of the last that did."""
        here = self._under_way.get(run.run_id)
        return here.events if here else self._ended.get(run.run_id)

    def watch(self) -> None:
        """From now on, resume interrupted runs, and record which runs this server works on."""
        self._watching = asyncio.create_task(self._watch())

    async def stop(self, seconds: float) -> None:
        """Interrupt running ingests, so that another server or the next start resumes them.

        Args:
            seconds: how long to wait for third-party code that hangs, such as an embedder.
        """
        self._is_stopping = True
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})
        stopping = list(self._under_way.values())
        for under_way in stopping:
            under_way.interrupted = True
            under_way.task.cancel()
        if stopping:
            await asyncio.wait({under_way.task for under_way in stopping}, timeout=seconds)
        for under_way in self._under_way.values():
            with suppress(LorebindError):
                await call(self.runs.interrupt, under_way.run)
            under_way.end()

    async def _watch(self) -> None:
        while True:
            try:
                for under_way in list(self._under_way.values()):
                    if not await call(self.runs.beat, under_way.run):
                        under_way.task.cancel()  # cancelled or taken over by another server
                for run in await call(self.runs.take_over):
                    if run.cancelled:
                        await call(self.runs.finish, run, "cancelled", {})
                    else:
                        log.info("resuming run %s", run.run_id)
                        self._start(run, waits=True)
                self._outages.worked()
            except LorebindError as error:  # running ingests report their own errors
                self._outages.failed(error)
            await asyncio.sleep(BEAT_SECONDS)

    def _start(self, run: RequestedRun, *, waits: bool = False) -> _UnderWay:
        under_way = _UnderWay(run, waits=waits)
        self._under_way[run.run_id] = under_way
        under_way.task = asyncio.create_task(self._carry_out(under_way))
        return under_way

    async def _carry_out(self, under_way: _UnderWay) -> None:
        """Execute one run from beginning to end; raises only if it is cancelled."""
        run = under_way.run
        status, outcome = "failed", {}
        try:
            with tenant(run.namespace.tenant):
                project = await self._seen_by(current_tenant())
                report = await _ingest(project, under_way)
            status, outcome = report.status, {"report": as_data(report)}
        except asyncio.CancelledError:
            status = "interrupted" if under_way.interrupted else "cancelled"
        except LorebindError as error:
            under_way.error = error
            outcome = {"error": problem_of(error).document()}
        except Exception as error:  # a bug in Lorebind or in the project's code
            self._log_failure(f"run {run.run_id} failed", error)
            detail = f"{type(error).__name__}; the server's log has details"
            outcome = {"error": {"code": "internal_error", "status": 500, "detail": detail}}
        finally:
            # A second cancellation comes only if the server is killed.
            with suppress(LorebindError):
                if status == "interrupted":
                    await call(self.runs.interrupt, run)
                elif under_way.is_refused:
                    await call(self.runs.forget, run)
                else:
                    await call(self.runs.finish, run, status, outcome)
            under_way.end()
            self._ended[run.run_id] = under_way.events
            if len(self._ended) > _RUNS_REMEMBERED:
                del self._ended[next(iter(self._ended))]
            self._under_way.pop(run.run_id, None)


class _UnderWay:
    """A run that this process works on."""

    task: asyncio.Task[None]

    def __init__(self, run: RequestedRun, *, waits: bool) -> None:
        self.run = run
        self.waits = waits
        """Whether it waits for another ingest of its knowledge base, instead of being refused."""
        self.events = RunEvents(run.run_id)
        self.interrupted = False
        """Whether it was cancelled because the server stops."""
        self.error: LorebindError | None = None

    @property
    def is_refused(self) -> bool:
        """Whether the run could not begin, so that its request is refused and nothing is stored."""
        return isinstance(self.error, _REFUSED) and not (self.waits or self.events.last)

    async def begun(self, seconds: float) -> None:
        """Wait until the run has begun to write, or has ended."""
        first = asyncio.ensure_future(self.events.first())
        try:
            await asyncio.wait(
                {first, self.task}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            first.cancel()

    def end(self) -> None:
        self.events.end()


async def _ingest(project: Project, under_way: _UnderWay) -> Any:
    run, settings = under_way.run, dict(under_way.run.request)
    action = settings.pop("action")
    kb = project.knowledge_base(run.namespace.kb, workflow=settings.pop("workflow"))
    project.knowledge.events.subscribe(under_way.events)
    try:
        if action == "add":
            return await ingest_added(kb.handle.corpus(), settings["uris"], run.run_id)
        method = kb.areindex if action == "reindex" else kb.aingest
        return await method(run_id=run.run_id, wait=under_way.waits, **settings)
    finally:
        project.knowledge.events.unsubscribe(under_way.events)
