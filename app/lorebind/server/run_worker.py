"""A worker that takes requested ingests, and `lorebind worker`, which also embeds texts."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from lorebind.server.failure_log import FailureLog
from lorebind.server.ingests import Ingests
from lorebind.server.state.knowledge_bases import StoredKnowledgeBases
from lorebind.server.state.runs import BEAT_SECONDS, CHANNEL, RequestedRuns
from lorebind.server.state.tables import open_state, refuse_alone
from lorebind.server.state.workers import Workers
from lorebind.server.tenant_projects import TenantProjects
from lorebind_config.errors import LorebindError
from lorebind_knowledge.database.databases import PostgresDatabase
from lorebind_knowledge.database.postgres_notifications import Notifications, refuse_pooler
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from lorebind.project import Project
    from lorebind_knowledge.scale.worker import Worker

_CONNECTIONS = 2
"""Maximum number of connections for statements, as of a worker that embeds. Others are for
notifications and for the lock of each ingest."""
_STOP_SECONDS = 25.0
"""Seconds that the code of a project may take when the worker is told to stop."""


class RunWorker:
    """Takes requested ingests that no other process works on, until it is cancelled."""

    def __init__(self, project: Project, most: int) -> None:
        """
        Args:
            project: the project, whose servers have `ingests: workers`.
            most: maximum number of ingests at the same time.

        Raises:
            UsageError: the state of the servers cannot be shared.
        """
        config = project.config
        refuse_alone(config)
        database = open_state(config)
        assert isinstance(database, PostgresDatabase)
        database.limit_connections(_CONNECTIONS)
        self._database, self._notifications = database, Notifications(database)
        runs = RequestedRuns(database, project.name, config.digest)
        projects = TenantProjects(project, StoredKnowledgeBases(database, project.name))
        self._name = runs.owner
        self._workers = Workers(database, project.name, config.digest)
        self._ingests = Ingests(runs, projects.of, FailureLog(config))
        self._ingests.most = most

    async def run(self, *, once: bool = False) -> None:
        """Work until it is cancelled; ingests in hand are then left to others.

        Args:
            once: whether to return when no ingest is waiting.

        Raises:
            StoreError: the state of the servers does not answer, or is behind a pooler in
                transaction mode. An outage later raises nothing.
        """
        await call(refuse_pooler, self._database)
        loop = asyncio.get_running_loop()

        def wake(_: str) -> None:
            # Called in the thread of the notifications, and events belong to the loop.
            loop.call_soon_threadsafe(self._ingests.wake)

        await call(self._workers.record, self._name)
        self._notifications.listen(CHANNEL, wake)
        self._ingests.watch()
        try:
            while not once:
                await asyncio.sleep(BEAT_SECONDS)
                with suppress(LorebindError):  # an outage, which the ingests report
                    await call(self._workers.record, self._name)
            await self._ingests.idle()
        finally:
            await self._ingests.stop(_STOP_SECONDS)
            await call(self._notifications.close)
            with suppress(LorebindError):
                await call(self._workers.remove, self._name)
            await call(self._database.close)


class ProjectWorker:
    """A process of `lorebind worker`: it embeds the texts of ingests, takes ingests, or both."""

    def __init__(self, embedding: Worker | None, ingests: RunWorker | None) -> None:
        self._embedding, self._ingests = embedding, ingests

    @property
    def works_on(self) -> str:
        parts = {"texts": self._embedding, "ingests": self._ingests}
        return " and ".join(name for name, part in parts.items() if part is not None)

    def stop(self) -> None:
        """Let batches end early that only wait; call it before `run` is cancelled."""
        if self._embedding is not None:
            self._embedding.stop()

    async def run(self, *, once: bool = False) -> None:
        """Work until it is cancelled.

        Args:
            once: whether to return when nothing is waiting.

        Raises:
            StoreError: a catalog cannot be used for workers. An outage later raises nothing.
        """
        if self._embedding is not None and self._ingests is not None:
            async with asyncio.TaskGroup() as tasks:
                embedding = tasks.create_task(self._embedding.run())  # also for its own ingests
                await self._ingests.run(once=once)
                embedding.cancel()
        elif self._ingests is not None:
            await self._ingests.run(once=once)
        if self._embedding is not None:
            await self._embedding.run(once=once)
