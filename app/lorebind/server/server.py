"""The objects that all routes of a server share: the project, its state and the caller."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import Depends, Request, Security
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase

from lorebind.knowledge_base import KnowledgeBase
from lorebind.mcp.http import McpEndpoint
from lorebind.server.failure_log import FailureLog
from lorebind.server.ingests import Ingests
from lorebind.server.middleware.callers import Caller
from lorebind.server.middleware.jwts import Jwts
from lorebind.server.problems import ProblemError
from lorebind.server.readiness import Readiness
from lorebind.server.request_tasks import Changes, Connected
from lorebind.server.state.knowledge_bases import StoredKnowledgeBases
from lorebind.server.state.runs import RequestedRuns
from lorebind.server.state.tables import open_state, refuse_alone
from lorebind.server.state.tokens import Tokens
from lorebind.server.state.workers import Workers
from lorebind.server.tenant_projects import TenantProjects
from lorebind.server.workflow_runs import WorkflowRuns
from lorebind_config.errors import LorebindError, MissingDependencyError
from lorebind_config.namespace import tenant
from lorebind_knowledge.extensions.prometheus import Prometheus
from lorebind_knowledge.plumbing.bridge import call, call_daemon

if TYPE_CHECKING:
    from lorebind.project import Project
    from lorebind.server.state.tokens import Rights

PREFIX = "/api/v0"
WORKFLOWS = f"{PREFIX}/workflows"
"""The path of the workflows."""
TOKEN = "token"
"""The name of the security scheme in the OpenAPI document."""
DRAIN_SECONDS = 25.0
"""Seconds that requests and ingests may take when the server is told to stop."""
_CLOSE_SECONDS = 5.0
"""Seconds to wait for third-party code that is started or closed."""


class Server:
    """A served project."""

    def __init__(self, project: Project) -> None:
        config = project.config
        self.project = project
        """The project as its files declare it."""
        self.database = open_state(config)
        refuse_alone(config)
        self.tokens = Tokens(self.database)
        declared = config.project.server.authorization
        self.jwts = None if declared is None else Jwts(declared, config.environment)
        """Checks the tokens of the declared authorization server, if there is one."""
        self.stored = StoredKnowledgeBases(self.database, project.name)
        self.log_failure = FailureLog(config)
        self.prometheus = _prometheus_of(project)
        """The metrics of `/metrics`; None if the extra `telemetry` is not installed."""
        stored = partial(RequestedRuns, self.database, project.name, config.digest)
        self.projects = TenantProjects(project, self.stored)
        workers = None
        if config.project.server.ingests == "workers":
            workers = Workers(self.database, project.name, config.digest)
        self.ingests = Ingests(stored(), self.projects.of, self.log_failure, workers=workers)
        project.knowledge.start_with(self.ingests.start)
        self.workflow_runs = WorkflowRuns(
            stored(of_workflows=True), self.database, project, WORKFLOWS, self.log_failure
        )
        """The runs of workflows in the background."""
        if self.prometheus is not None:
            self.prometheus.show_state(self.workflow_runs.overview)
        self.changes = Changes()
        """Documents that are being deleted."""
        self.connected = Connected()
        self.readiness = Readiness(project, self.database)
        self.mcp = McpEndpoint(project, self.projects.of, self.log_failure)
        self.is_draining = False
        """Whether it is about to stop."""
        self.starting: asyncio.Task[None] | None = None
        """Ingests knowledge bases with `on_start`; its error is theirs."""
        self.preparing: asyncio.Task[None] | None = None
        """Does ahead what first requests would wait for. The server is ready before it is done."""

    def prepare(self, name: str | None) -> None:
        """Begin to read the knowledge bases of a tenant whose request is being checked."""
        with suppress(LorebindError), nullcontext() if name is None else tenant(name):
            self.projects.prepare(self.project.config.tenant)

    def invalidate(self, name: str) -> None:
        """Let everybody here see that a tenant has created or deleted a knowledge base here."""
        self.projects.invalidate(name)
        self.mcp.changed(name)

    @property
    def is_ready(self) -> bool:
        """Whether the server has started and is not about to stop."""
        done = self.starting is not None and self.starting.done()
        return done and not self.is_draining

    async def start(self) -> None:
        """Resume interrupted runs, and ingest knowledge bases with `on_start`."""
        self.ingests.watch()
        self.workflow_runs.watch()
        self.starting = asyncio.create_task(self._start())
        self.preparing = asyncio.create_task(self._prepare())

    async def _prepare(self) -> None:
        reading = [] if self.jwts is None else [self.jwts.prepare()]
        work = asyncio.gather(*reading, self._import_for_mcp(), return_exceptions=True)
        for error in filter(None, await work):
            self.log_failure("the server could not prepare for the first requests", error)

    async def _import_for_mcp(self) -> None:
        await self._import_for_workflows()  # first, because the server is not ready before it
        await self.mcp.prepare()

    async def _import_for_workflows(self) -> None:
        if self.project.config.workflows:
            await call_daemon(_import_langgraph)  # stopping does not wait for it

    async def _start(self) -> None:
        await self._import_for_workflows()
        if self.project.config.project.tenancy == "required":
            return  # the first search of each tenant ingests them
        for kb in self.project.config.project.knowledge_bases:
            await self.project.knowledge.open(kb.id).start()

    async def drain(self, seconds: float = DRAIN_SECONDS) -> None:
        """Refuse new requests, and interrupt runs in the background, so that waiting clients are
        notified.

        Args:
            seconds: how long to wait for third-party code that hangs. Lorebind's own data is
                stored by then.
        """
        self.is_draining = True
        self.mcp.drain()
        if self.starting is not None:
            self.starting.cancel()
        await asyncio.gather(
            self.ingests.stop(seconds),
            self.workflow_runs.stop(seconds),
            self.changes.stop(seconds),
        )
        if self.starting is not None:
            await asyncio.wait({self.starting}, timeout=_CLOSE_SECONDS)

    async def stop(self) -> None:
        """Close everything."""
        if not self.is_draining:
            await self.drain()
        await self.connected.stop()
        if self.preparing is not None:
            self.preparing.cancel()
            await asyncio.wait({self.preparing})
        await self.mcp.stop()
        closing = asyncio.create_task(self.project.aclose())
        done, _ = await asyncio.wait({closing}, timeout=_CLOSE_SECONDS)
        for task in done:
            task.result()
        await call(self.database.close)


def _import_langgraph() -> None:
    """Import it now, because the import takes a second and would block requests in the first
    run."""
    with suppress(ImportError):  # a run reports which extra to install
        import_module("langgraph.graph")


def _prometheus_of(project: Project) -> Prometheus | None:
    """Return the extension whose registry is served, and subscribe one if none is declared.

    Only ids from the YAML become labels. Callers of the API choose the other ids, so the number of
    labels would be unlimited.

    Returns:
        The extension, or None if it is neither declared nor installed.
    """
    events = project.knowledge.events
    declared = [extension for extension in events.extensions if isinstance(extension, Prometheus)]
    if not declared:
        try:
            declared = [Prometheus()]
        except MissingDependencyError:
            return None
        project.knowledge.subscribe(declared[0])
    for extension in declared:
        extension.labelled = {kb.id for kb, _ in project.config.every_knowledge_base()}
    return declared[0]


# Coroutines although they await nothing, because FastAPI runs functions in slower threads.


async def _server(request: Request) -> Server:
    server: Server = request.app.state.server
    return server


class _Requires(SecurityBase):
    """A dependency of routes: the caller, if the token has these rights."""

    def __init__(self, rights: Rights) -> None:
        self.model, self.scheme_name = HTTPBearer(), TOKEN
        self._rights = rights

    async def __call__(self, request: Request) -> Caller:
        caller: Caller = request.scope["state"]["caller"]
        caller.require(self._rights)
        return caller


def _requires(rights: Rights) -> Any:
    return Security(_Requires(rights), scopes=[rights])  # the scopes are those of the document


async def _seen(server: Annotated[Server, Depends(_server)]) -> Project:
    return await server.projects.of(server.project.config.tenant)


TheServer = Annotated[Server, Depends(_server)]
Writer = Annotated[Caller, _requires("write")]
"""The caller of a request that changes something. Every token may read."""
Admin = Annotated[Caller, _requires("admin")]
SeenProject = Annotated[Any, Depends(_seen)]
"""The project as the caller's tenant sees it."""


async def _knowledge_base(
    project: SeenProject, kb_id: str, workflow: str | None = None
) -> KnowledgeBase:
    kb: KnowledgeBase = project.knowledge_base(kb_id, workflow=workflow)
    return kb


def filled_by_us(kb: KnowledgeBase) -> KnowledgeBase:
    """Return the knowledge base, or refuse to change it if others fill it.

    Raises:
        ProblemError: the knowledge base can only be searched.
    """
    if kb.handle.is_existing:
        detail = f"knowledge base {kb.id!r} is filled by others, so it can only be searched"
        raise ProblemError("forbidden", detail)
    return kb


SeenKnowledgeBase = Annotated[KnowledgeBase, Depends(_knowledge_base)]
"""The knowledge base that the path names, as the caller's tenant sees it."""


def location(kb: KnowledgeBase, part: str) -> dict[str, str]:
    """Return the header with the URL of a part of a knowledge base, such as `runs/…`."""
    query = f"?{urlencode({'workflow': kb.workflow})}" if kb.workflow else ""
    return {"Location": f"{PREFIX}/knowledge-bases/{quote(kb.id)}/{part}{query}"}


async def _filled_by_us(kb: SeenKnowledgeBase) -> KnowledgeBase:
    return filled_by_us(kb)


FilledByUs = Annotated[KnowledgeBase, Depends(_filled_by_us)]
"""The same, for requests that change it."""
