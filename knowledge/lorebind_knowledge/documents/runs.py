"""List the ingest runs of a knowledge base."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.errors import NotFoundError
from lorebind_knowledge.documents.listing import check_limit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.catalog.runs import RunInfo


def list_runs(
    namespace: Namespace, catalog: Catalog, limit: int | None = None, before: str | None = None
) -> Sequence[RunInfo]:
    """List the runs of a knowledge base, the latest first.

    Args:
        namespace: the knowledge base.
        catalog: the catalog that stores it.
        limit: maximum number of runs; None for all.
        before: a run's id; only runs that started before that run.

    Raises:
        NotFoundError: no run has this id.
        UsageError: the limit is less than 1.
    """
    check_limit(limit)
    first = None if before is None else find_run(namespace, catalog, before)
    return catalog.runs.list(namespace, limit, first)


def find_run(namespace: Namespace, catalog: Catalog, run_id: str) -> RunInfo:
    """Return a run by its id.

    Raises:
        NotFoundError: no such run.
    """
    found = catalog.runs.get(namespace, run_id)
    if found is None:
        raise NotFoundError(f"knowledge base {namespace.kb!r} has no run {run_id!r}")
    return found
