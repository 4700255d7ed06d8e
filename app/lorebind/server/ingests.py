"""Requested ingests: one per knowledge base at a time."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from lorebind.plain_data import as_data
from lorebind.server.background_runs import BackgroundRuns
from lorebind.server.failure_log import OutageLog
from lorebind.server.problems import ProblemError
from lorebind.server.run_events import RunEvents
from lorebind.server.state.runs import UnderWayError
from lorebind_config.errors import (
    ConfigurationError,
    DatabaseUnavailableError,
    IngestRunningError,
    NotFoundError,
    StoreError,
    UsageError,
)
from lorebind_config.namespace import Namespace, current_tenant, digest
from lorebind_knowledge.documents.changing import ingest_added
from lorebind_knowledge.parts import StartReport
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from lorebind.project import Project
    from lorebind.server.background_runs import UnderWay
    from lorebind.server.state.runs import RequestedRun, RequestedRuns
    from lorebind.server.state.workers import Workers
    from lorebind_knowledge.scale.engine import WorkerInfo

log = logging.getLogger("lorebind.server")

_TURN_SECONDS = 1.0
"""Seconds that a request waits for the run of its documents to begin."""
_MOST_SECONDS = 20.0
"""Seconds that it then waits for the end of the run."""

_OUTAGES = 3
"""Number of outages of a database after which a run goes on. A further one fails it, because the
ingest itself may be what ends the connections."""
_RETRY_SECONDS = 1.0

_UNATTENDED = ("waiting", "interrupted")
"""The statuses of runs on which no process works."""
_RUNS = 20
"""Runs among which a completed one is looked for."""


class Ingests(BackgroundRuns[RunEvents]):
    """Runs requested ingests and rebuilds."""

    name = "requested ingests"
    refusals = (IngestRunningError, UsageError, NotFoundError, ConfigurationError)
    cancel_seconds = 5

    def __init__(
        self,
        runs: RequestedRuns,
        project_for: Callable[[str], Awaitable[Project]],
        log_failure: Callable[[str, BaseException], None],
        *,
        workers: Workers | None = None,
    ) -> None:
        """
        Args:
            runs: the stored runs.
            project_for: returns the project as a tenant sees it.
            log_failure: logs unexpected errors.
            workers: those who work on all runs; None means this process.
        """
        super().__init__(runs, log_failure)
        self._project_for, self._workers = project_for, workers
        if workers is not None:
            self.most = 0
        self._missing = OutageLog("ingests wait", "workers take the waiting ingests")
        self._began = time.time()
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the server."""

    def watch(self) -> None:
        self._loop = asyncio.get_running_loop()
        super().watch()

    async def add(self, namespace: Namespace, request: Mapping[str, Any]) -> RequestedRun:
        """Begin a run for added documents, after other ingests of the knowledge base.

        If the server stops or is killed, the next one resumes the run.

        Returns:
            The run; it has not ended if another ingest is running, or if it takes long.

        Raises:
            LorebindError: the run failed.
        """
        store = partial(
            self.runs.request,
            namespace,
            request,
            alone=False,
            for_any_server=True,
            for_workers=self.are_for_workers,
        )
        run, _ = await call(store)
        if self.are_for_workers:
            return await self._added(run)
        under_way = self._start(run, waits=True)
        await under_way.begun(_TURN_SECONDS)
        if under_way.task.done() or under_way.events.has_begun:
            run = await self.ended(run, _MOST_SECONDS)
        if under_way.error is not None:
            raise under_way.error
        return run

    async def why_waiting(self, run: RequestedRun) -> str:
        """Return why no process works on a run; empty if one does, or will."""
        if self._workers is None or run.status not in _UNATTENDED:
            return ""
        return (await call(self._workers.live)).missing

    async def live_workers(self) -> list[WorkerInfo]:
        """Return the workers that take its runs; none if this process does."""
        return [] if self._workers is None else await call(self._workers.all)

    async def tidy(self) -> None:
        if self._workers is None:
            return
        waiting = await call(self.runs.vouch)
        missing = (await call(self._workers.live)).missing if waiting else ""
        if missing:
            self._missing.failed(missing)
        else:
            self._missing.worked()

    async def _added(self, run: RequestedRun) -> RequestedRun:
        """Wait for the end of a run for added documents that a worker takes."""
        if not await self.why_waiting(run):
            run = await self.ended(run, _MOST_SECONDS)
        if failed := run.outcome.get("error"):
            raise ProblemError(failed["code"], failed["detail"])
        return run

    async def start(self, namespace: Namespace, declared: str) -> StartReport | None:
        """Ingest a knowledge base as a `Starter`, once for all servers that start together.

        An equal run that another server works on, or that has completed since this one began, is
        as good as one of its own. It waits for such a run if there is no index from before.
        """
        loop = self._loop or asyncio.get_running_loop()
        starting = asyncio.run_coroutine_threadsafe(self._start_once(namespace, declared), loop)
        return await asyncio.wrap_future(starting)  # a search may come from another loop

    async def _start_once(self, namespace: Namespace, declared: str) -> StartReport | None:
        request = {"action": "start", "workflow": namespace.workflow}
        request["declared"] = digest(self.runs.declarations, declared)
        while True:
            try:
                same = partial(self.runs.same_since, namespace, request, self._began)
                if (run := await call(same)) is not None:
                    is_ours = False
                else:
                    run, is_ours = await self.request(namespace, request, waits=True), True
            except UnderWayError as error:
                run, is_ours = error.run, False
            except StoreError:
                return None  # the state cannot be written
            if not is_ours and run.finished_at is None and await self._has_index(namespace):
                return StartReport("completed")  # of an earlier start, and soon up to date
            run = await self._end_of(run)
            if is_ours or (run.request == request and run.is_good):
                return _start_report(run)

    async def _has_index(self, namespace: Namespace) -> bool:
        """Whether an ingest of a knowledge base has completed before."""
        project = await self._project_for(namespace.tenant)
        kb = project.knowledge_base(namespace.kb, workflow=namespace.workflow)
        runs = await kb.aruns(limit=_RUNS)
        return any(run.status.startswith("completed") for run in runs)

    async def _end_of(self, run: RequestedRun) -> RequestedRun:
        while run.finished_at is None:
            if self._is_stopping:
                raise ProblemError("draining", "the server is about to stop")
            run = await self.ended(run, _MOST_SECONDS)
        return run

    def new_events(self, run: RequestedRun) -> RunEvents:
        return RunEvents(run.run_id)

    async def carry_out(self, under_way: UnderWay[RunEvents]) -> tuple[str, Mapping[str, Any]]:
        for _ in range(_OUTAGES):
            try:
                return await self._ingest(under_way)
            except DatabaseUnavailableError as error:
                log.warning("run %s is interrupted: %s", under_way.run.run_id, error)
            await self._until_readable(under_way.run)
            under_way.waits = True  # for the lease of the interrupted ingest, too
        return await self._ingest(under_way)

    async def _until_readable(self, run: RequestedRun) -> None:
        """Wait until the run can be read, so that it neither goes on nor fails in an outage."""
        while True:
            await asyncio.sleep(_RETRY_SECONDS)
            with suppress(StoreError):
                await call(partial(self.runs.find, run.namespace, run.run_id))
                return

    async def _ingest(self, under_way: UnderWay[RunEvents]) -> tuple[str, Mapping[str, Any]]:
        run, settings = under_way.run, dict(under_way.run.request)
        action = settings.pop("action")
        settings.pop("declared", None)
        project = await self._project_for(current_tenant())
        kb = project.knowledge_base(run.namespace.kb, workflow=settings.pop("workflow"))
        project.knowledge.events.subscribe(under_way.events)
        try:
            if action == "add":
                report = await ingest_added(kb.handle.corpus(), settings["uris"], run.run_id)
            elif action == "retry":
                report = await kb.aretry_document(
                    settings["document"], wait=under_way.waits, run_id=run.run_id
                )
            else:
                method = kb.areindex if action == "reindex" else kb.aingest
                report = await method(run_id=run.run_id, wait=under_way.waits, **settings)
        finally:
            project.knowledge.events.unsubscribe(under_way.events)
        return report.status, {"report": as_data(report)}


def _start_report(run: RequestedRun) -> StartReport:
    """Return what a run came to that has ended, on any server."""
    if (report := run.outcome.get("report")) is None:
        return StartReport(run.status, [run.outcome.get("error", {}).get("detail", "")])
    return StartReport(run.status, [source["reason"] for source in report["sources"]])
