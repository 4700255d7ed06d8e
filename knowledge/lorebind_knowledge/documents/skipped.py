"""The files and folders that the sources of a knowledge base found and did not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.errors import UsageError
from lorebind_knowledge.documents.listing import check_limit
from lorebind_knowledge.ingest.corpus import ADDED
from lorebind_knowledge.ingest.report import Skipped

if TYPE_CHECKING:
    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.catalog.catalog import Catalog

_RUNS_AT_ONCE = 20


def list_skipped(
    namespace: Namespace,
    catalog: Catalog,
    *,
    limit: int | None = None,
    after: str | None = None,
    before: str | None = None,
) -> list[Skipped]:
    """List what the last ingest of the sources skipped, ordered by uri.

    Args:
        namespace: the knowledge base.
        catalog: the catalog that stores it.
        limit: maximum number of items; None for all.
        after: a uri; only items after it.
        before: a uri; only the last items before it.

    Raises:
        UsageError: the limit is less than 1, or both `after` and `before` are given.
    """
    check_limit(limit)
    if after is not None and before is not None:
        raise UsageError("items are listed after a uri or before one; give only one of them")
    by_uri = _last_skipped(namespace, catalog)
    items = [
        by_uri[uri]
        for uri in sorted(by_uri)
        if (after is None or uri > after) and (before is None or uri < before)
    ]
    if limit is None:
        return items
    return items[:limit] if before is None else items[-limit:]


def _last_skipped(namespace: Namespace, catalog: Catalog) -> dict[str, Skipped]:
    """Return what the latest run skipped that has listed sources, by uri."""
    mark = None
    while runs := catalog.runs.list(namespace, _RUNS_AT_ONCE, mark):
        for run in runs:
            sources = (run.report or {}).get("sources", ())
            if any(source["source"] != ADDED for source in sources):
                items = (Skipped(**item) for source in sources for item in source["skipped"])
                return {item.uri: item for item in items}
        mark = runs[-1].started_at, runs[-1].run_id
    return {}
