"""The owner of stored data: tenants, namespaces, and the index that a record belongs to."""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_TENANT = "default"
PROJECT_SCOPE = "project"
COLLECTION_SCOPE = "collection"
"""The scope of collections. No knowledge base has it, so no ingest deletes their documents."""

_tenant: ContextVar[str] = ContextVar("lorebind_tenant", default=DEFAULT_TENANT)


@contextmanager
def tenant(name: str) -> Iterator[None]:
    """Run the block as a tenant: all data that it stores or reads belongs to this tenant.

    The name is a context variable: tasks and threads started in the block inherit it, and
    concurrent blocks do not see each other's tenant.

    Raises:
        ValueError: the name is empty.
    """
    if not name:
        raise ValueError("a tenant needs a name; omit the block for the default tenant")
    token = _tenant.set(name)
    try:
        yield
    finally:
        _tenant.reset(token)


def current_tenant() -> str:
    """Return the tenant of the innermost `tenant(...)` block, else `default`."""
    return _tenant.get()


@dataclass(frozen=True, slots=True, order=True)
class Namespace:
    """The four names that are part of every record, filter, delete, cache key and ledger row."""

    tenant: str
    project: str
    scope: str
    """`project`; `workflow/<id>` for a knowledge base that one workflow declares; `collection`."""
    kb: str

    def command(self, verb: str) -> str:
        """Return a shell command for this knowledge base, for messages."""
        _, _, workflow = self.scope.partition("workflow/")
        where = f" --workflow {workflow}" if workflow else ""
        whose = f" --tenant {shlex.quote(self.tenant)}" if self.tenant != DEFAULT_TENANT else ""
        return f"lorebind knowledge {verb} {self.kb}{where}{whose}"


@dataclass(frozen=True, slots=True, order=True)
class IndexKey:
    """An index of a knowledge base. A reindex builds the next number next to the one in use."""

    namespace: Namespace
    number: int = 1
