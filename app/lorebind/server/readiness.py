"""Whether the databases of a server answer, for `/readyz`."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from lorebind.server.failure_log import OutageLog
from lorebind.server.problems import ProblemError
from lorebind_config.errors import LorebindError
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from lorebind.project import Project
    from lorebind_knowledge.database.databases import Database

_SECONDS = 3.0
"""Maximum time of an answer of all databases together."""
_CACHE_SECONDS = 1.0
"""How long an answer counts, so that many probes ask no more often."""


class Readiness:
    """Asks the state of the server, and each vector database with its catalog."""

    def __init__(self, project: Project, state: Database) -> None:
        self._project, self._state = project, state
        self._asking: asyncio.Task[str] | None = None
        self._asked_at = 0.0
        self._outages = OutageLog("a database does not answer", "all databases answer again")

    async def check(self) -> None:
        """
        Raises:
            ProblemError: a database does not answer, or not in time.
        """
        now = time.monotonic()
        if self._asking is None or (self._asking.done() and now - self._asked_at >= _CACHE_SECONDS):
            self._asked_at = now
            self._asking = asyncio.create_task(self._ask())
        # Never cancelled: a thread that waits for a database cannot be, and one is enough.
        left = max(self._asked_at + _SECONDS - now, 0)
        done, _ = await asyncio.wait({self._asking}, timeout=left)
        failure = self._asking.result() if done else f"no answer within {_SECONDS:g} s"
        if failure:
            self._outages.failed(failure)
            # The error may name the location of the database, which callers must not see.
            detail = "a database of the server does not answer; its log names it"
            raise ProblemError("store_unavailable", detail, headers={"Retry-After": "1"})
        self._outages.worked()

    async def _ask(self) -> str:
        """Return why a database cannot be used; empty if all can."""
        try:
            await call(_read, self._state)
            for vector_db in self._project.config.project.vector_dbs_or_default:
                if not vector_db.is_existing:
                    await self._project.knowledge.ping(vector_db.id)
        except LorebindError as error:
            return str(error)
        return ""


def _read(database: Database) -> None:
    with database.reading() as sql:
        sql.run("select 1")
