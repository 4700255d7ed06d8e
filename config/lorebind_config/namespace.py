"""The owner of stored data: tenants and namespaces; and stable ids, which are hashes of fields."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from lorebind_config.errors import Suggestion, UsageError

DEFAULT_TENANT = "default"
PROJECT_SCOPE = "project"
COLLECTION_SCOPE = "collection"
"""The scope of collections. No knowledge base has it, so no ingest deletes their documents."""

_tenant: ContextVar[str | None] = ContextVar("lorebind_tenant", default=None)


@contextmanager
def tenant(name: str) -> Iterator[None]:
    """Run the block as a tenant: all data that it stores or reads belongs to this tenant.

    The name is a context variable. asyncio tasks that start in the block, `asyncio.to_thread` and
    Lorebind's own threads inherit it, and concurrent blocks do not see each other's tenant. Other
    threads do not inherit it, such as those of `threading.Thread` and `ThreadPoolExecutor`: use
    `Project.for_tenant` there, which does not depend on the context.

    Raises:
        ValueError: the name is empty.
    """
    token = _tenant.set(checked_tenant(name))
    try:
        yield
    finally:
        _tenant.reset(token)


def checked_tenant(name: str) -> str:
    """Return the name of a tenant.

    Raises:
        UsageError: the name is empty.
    """
    if not isinstance(name, str) or not name.strip():
        raise UsageError(f"a tenant needs a name that is not empty, not {name!r}")
    return name


def named_tenant() -> str | None:
    """Return the tenant of the innermost `tenant(...)` block; None outside of any."""
    return _tenant.get()


def current_tenant() -> str:
    """Return the tenant of the innermost `tenant(...)` block, else `default`.

    Code that a project names sees the tenant for which it runs, also if a view of
    `Project.for_tenant` runs it.
    """
    return _tenant.get() or DEFAULT_TENANT


def tenant_option(name: str, *, required: bool) -> str:
    """Return the option of a command that names a tenant; empty if the command needs none.

    Args:
        name: the tenant.
        required: whether the project has `tenancy: required`.
    """
    return f" --tenant {shlex.quote(name)}" if required or name != DEFAULT_TENANT else ""


@dataclass(frozen=True, slots=True, order=True)
class Namespace:
    """The four names that are part of every record, filter, delete, cache key and ledger row."""

    tenant: str
    project: str
    scope: str
    """`project`; `workflow/<id>` for a knowledge base that one workflow declares; `collection`."""
    kb: str
    tenancy_required: bool = field(default=False, compare=False, repr=False)
    """Whether commands must name the tenant, also `default`. It is no part of the identity."""

    @property
    def workflow(self) -> str | None:
        """The workflow that declares the knowledge base; None if the project does."""
        return self.scope.partition("workflow/")[2] or None

    def command(self, verb: str, arguments: str = "") -> Suggestion:
        """Return a shell command for this knowledge base, for messages."""
        where = f" --workflow {self.workflow}" if self.workflow else ""
        whose = tenant_option(self.tenant, required=self.tenancy_required)
        return Suggestion(f"lorebind knowledge {verb} {self.kb}{where}{whose}{arguments}")


@dataclass(frozen=True, slots=True, order=True)
class IndexKey:
    """An index of a knowledge base. A reindex builds the next number next to the one in use."""

    namespace: Namespace
    number: int = 1


ADDED_SCHEME = "added:"
"""The beginning of the uris of documents that were added by hand. No source uses it."""


def digest(*fields: str | bytes) -> str:
    """Return the SHA-256, in hex, of fields that are each preceded by their length in bytes."""
    hasher = hashlib.sha256()
    for value in fields:
        data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        hasher.update(len(data).to_bytes(8, "big"))
        hasher.update(data)
    return hasher.hexdigest()


def document_id(uri: str) -> str:
    """Return 24 characters that replace a URI where it cannot be written, such as in a path."""
    return digest(uri)[:24]


def free_name(name: str, taken: dict[str, int]) -> str:
    """Return the name, or `NAME#2` and so on if it is taken; `taken` counts the uses of each."""
    free = name
    while free in taken:
        taken[name] += 1
        free = f"{name}#{taken[name]}"
    taken[free] = 1
    return free


def chunk_id(namespace: Namespace, uri: str, text: str, ordinal: int) -> str:
    """Return the id of a chunk: its text, document and owner, never its position.

    `ordinal` counts equal texts within the document, from 0. An edit changes only the ids of
    chunks whose text changes.
    """
    owner = (namespace.tenant, namespace.project, namespace.scope, namespace.kb)
    return digest(*owner, uri, text, str(ordinal))
