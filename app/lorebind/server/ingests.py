"""Requested ingests: one per knowledge base at a time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lorebind.plain_data import as_data
from lorebind.server.background_runs import BackgroundRuns
from lorebind.server.run_events import RunEvents
from lorebind_config.errors import (
    ConfigurationError,
    IngestRunningError,
    NotFoundError,
    UsageError,
)
from lorebind_config.namespace import Namespace, current_tenant
from lorebind_knowledge.documents.changing import ingest_added
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from lorebind.project import Project
    from lorebind.server.background_runs import UnderWay
    from lorebind.server.state.runs import RequestedRun, RequestedRuns

_TURN_SECONDS = 1.0
"""Seconds that a request waits for the run of its documents to begin."""
_MOST_SECONDS = 20.0
"""Seconds that it then waits for the end of the run."""


class Ingests(BackgroundRuns[RunEvents]):
    """Runs requested ingests and rebuilds."""

    refusals = (IngestRunningError, UsageError, NotFoundError, ConfigurationError)
    cancel_seconds = 5

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
        super().__init__(runs, log_failure)
        self._seen_by = project_for

    async def add(self, namespace: Namespace, request: Mapping[str, Any]) -> RequestedRun:
        """Begin a run for added documents, after other ingests of the knowledge base.

        If the server stops or is killed, the next one resumes the run.

        Returns:
            The run; it has not ended if another ingest is running, or if it takes long.

        Raises:
            LorebindError: the run failed.
        """
        store = partial(self.runs.request, namespace, request, alone=False, for_any_server=True)
        run, _ = await call(store)
        under_way = self._start(run, waits=True)
        await under_way.begun(_TURN_SECONDS)
        if under_way.task.done() or under_way.events.has_begun:
            run = await self.ended(run, _MOST_SECONDS)
        if under_way.error is not None:
            raise under_way.error
        return run

    def new_events(self, run: RequestedRun) -> RunEvents:
        return RunEvents(run.run_id)

    async def carry_out(self, under_way: UnderWay[RunEvents]) -> tuple[str, Mapping[str, Any]]:
        run, settings = under_way.run, dict(under_way.run.request)
        action = settings.pop("action")
        project = await self._seen_by(current_tenant())
        kb = project.knowledge_base(run.namespace.kb, workflow=settings.pop("workflow"))
        project.knowledge.events.subscribe(under_way.events)
        try:
            if action == "add":
                report = await ingest_added(kb.handle.corpus(), settings["uris"], run.run_id)
            else:
                method = kb.areindex if action == "reindex" else kb.aingest
                report = await method(run_id=run.run_id, wait=under_way.waits, **settings)
        finally:
            project.knowledge.events.unsubscribe(under_way.events)
        return report.status, {"report": as_data(report)}
