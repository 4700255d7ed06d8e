"""The state of all knowledge bases of a catalog, for metrics."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

from lorebind_config.namespace import COLLECTION_SCOPE, Namespace
from lorebind_knowledge.catalog.rows import OWNER
from lorebind_knowledge.catalog.runs import decoded
from lorebind_knowledge.records import BatchCounts, KnowledgeBaseState, Overview

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.database.sql import Sql

# One lookup in the index of runs for each knowledge base, however many runs there are.
_LATEST = (
    "(select {column} from catalog_runs r where r.tenant = i.tenant and r.project = i.project"
    " and r.scope = i.scope and r.kb = i.kb and {status} order by started_at desc limit 1)"
)
_RUNS = (
    f"select {OWNER}, "
    + _LATEST.format(
        column="finished_at", status="status in ('completed', 'completed_with_failures')"
    )
    + ", "
    + _LATEST.format(column="progress", status="status = 'running'")
    + f" from (select distinct {OWNER} from catalog_indexes"
    " where project = :project and scope <> :without) i"
)
_SEARCHED = (
    f"select {OWNER}, number from catalog_indexes where project = :project"
    " and state in ('active', 'building') order by state desc, number"
)
# The index of the primary key has all that the first of them reads, and a partial index most of
# what the second one reads.
_DOCUMENTS = (
    f"select {OWNER}, number, count(*) from catalog_documents where project = :project"
    f" group by {OWNER}, number"
)
_UNREADY = (
    f"select {OWNER}, number, state, count(*) from catalog_documents"
    f" where state <> 'ready' and project = :project group by {OWNER}, number, state"
)


def read_overview(catalog: Catalog, project: str) -> Overview:
    """Read the state of all knowledge bases of a project, of all tenants.

    Raises:
        StoreError: the catalog cannot be read.
    """
    with catalog.reading() as sql:
        batches = _batches(sql) if catalog.postgres is not None else {}
        return Overview(_knowledge_bases(sql, project), batches)


def _knowledge_bases(sql: Sql, project: str) -> dict[Namespace, KnowledgeBaseState]:
    searched = {Namespace(*names): number for *names, number in sql.run(_SEARCHED, project=project)}
    counts: defaultdict[Namespace, dict[str, int]] = defaultdict(dict)
    for *names, number, count in sql.run(_DOCUMENTS, project=project):
        if searched.get(Namespace(*names)) == number:
            counts[Namespace(*names)]["ready"] = count
    for *names, number, state, count in sql.run(_UNREADY, project=project):
        if searched.get(Namespace(*names)) == number:
            counts[Namespace(*names)][state] = count
            counts[Namespace(*names)]["ready"] -= count
    states = {}
    for *names, ended, progress in sql.run(_RUNS, project=project, without=COLLECTION_SCOPE):
        documents = counts[Namespace(*names)]
        backlog = _unread(decoded(progress)) + documents.get("pending", 0)
        states[Namespace(*names)] = KnowledgeBaseState(documents, backlog, ended)
    return states


def _unread(progress: Mapping[str, int] | None) -> int:
    """Return the number of documents that a run has listed and not read."""
    counts = progress or {}
    return max(counts.get("documents", 0) - counts.get("documents_read", 0), 0)


def _batches(sql: Sql) -> dict[str, BatchCounts]:
    batches: dict[str, BatchCounts] = {}
    running = f"case when until > {sql.now} then 1 else 0 end"
    counted = "select embedder, about, count(*), sum({}) from catalog_batches where done = 0"
    for key, about, total, taken in sql.run(f"{counted.format(running)} group by embedder, about"):
        counts = batches.setdefault(key, BatchCounts(json.loads(about)["embedder"]))
        counts.running += taken
        counts.waiting += total - taken
    return batches
