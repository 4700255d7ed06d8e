"""The project as each tenant sees it: with the knowledge bases that were created over the API."""

from __future__ import annotations

import asyncio
import json
import math
import time
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from pydantic import ValidationError

from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lorebind.project import Project
    from lorebind.server.state.knowledge_bases import StoredKnowledgeBases

_MOST_CACHED = 1000
"""Maximum number of cached declarations, and of cached tenants."""
_SEEN_SECONDS = 0.5


class TenantProjects:
    """The projects of all tenants, each read again after half a second."""

    def __init__(self, project: Project, stored: StoredKnowledgeBases) -> None:
        """
        Args:
            project: the project as its files declare it.
            stored: the knowledge bases that were created over the API.
        """
        self._project, self._stored = project, stored
        self._seen: dict[str, tuple[float, Project]] = {}
        self._reading: dict[str, asyncio.Task[Project]] = {}
        self._changes = 0

    async def of(self, tenant: str) -> Project:
        """Return the project with the knowledge bases that a tenant has created over the API.

        Knowledge bases created on other servers are visible after half a second.
        """
        reading = self.prepare(tenant)
        if reading is None:
            return self._seen[tenant][1]
        return await asyncio.shield(reading)  # no caller cancels it

    def prepare(self, tenant: str) -> asyncio.Task[Project] | None:
        """Begin to read what `of` will return, unless it is known; concurrent callers share it."""
        if time.monotonic() - self._seen.get(tenant, (-math.inf, None))[0] < _SEEN_SECONDS:
            return None
        reading = self._reading.get(tenant)
        if reading is None:
            reading = self._reading[tenant] = asyncio.create_task(self._read(tenant))
            reading.add_done_callback(partial(self._forget, tenant))
        return reading

    async def _read(self, tenant: str) -> Project:
        now, changes = time.monotonic(), self._changes
        stored = await call(self._stored.of, tenant)
        declared = {kb.id for kb in self._project.config.project.knowledge_bases}
        kbs = [read_stored(kb.declared) for kb in stored if kb.id not in declared]
        project = self._project.with_knowledge_bases([kb for kb in kbs if kb is not None])
        if len(self._seen) >= _MOST_CACHED:
            self._seen.clear()
        if changes == self._changes:  # otherwise, it may be the state before the change
            self._seen[tenant] = now, project
        return project

    def _forget(self, tenant: str, reading: asyncio.Task[Project]) -> None:
        if self._reading.get(tenant) is reading:  # not one after a change
            del self._reading[tenant]
        if not reading.cancelled():
            reading.exception()  # each caller gets it

    def invalidate(self, tenant: str) -> None:
        """Forget the cached project of a tenant that has created or deleted a knowledge base
        here."""
        self._changes += 1
        self._seen.pop(tenant, None)
        self._reading.pop(tenant, None)  # it may read the state before the change


def read_stored(declared: Mapping[str, object]) -> KnowledgeBaseDeclaration | None:
    """Return a stored declaration, or None if this version of Lorebind cannot read it."""
    return _read_stored(json.dumps(declared))


@lru_cache(_MOST_CACHED)  # every request of a tenant reads all of its declarations
def _read_stored(text: str) -> KnowledgeBaseDeclaration | None:
    try:
        return KnowledgeBaseDeclaration.model_validate(json.loads(text))
    except ValidationError:
        return None
