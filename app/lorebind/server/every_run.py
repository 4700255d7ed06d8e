"""All ingests of a knowledge base: the requested ones, and those that others have started.

The state of the server has the requests, and the ledger of the knowledge base has every ingest that
has started, also those of Python and of the command line. A requested ingest is in both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind.server.problems import ProblemError
from lorebind.server.state.runs import RequestedRun, RequestedRuns
from lorebind_config.errors import NotFoundError
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind.knowledge_base import KnowledgeBase
    from lorebind.server.paging import Cursor
    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.catalog.runs import RunInfo


async def page_of_runs(
    requested: RequestedRuns, kb: KnowledgeBase, start: Cursor, count: int
) -> list[RequestedRun]:
    """Return runs, newest first.

    Args:
        requested: the requested ones.
        kb: the knowledge base.
        start: the start of the page; its key is one of `RequestedRuns.key`.
        count: the maximum number of runs.
    """
    after, before = start.bounds
    runs = [*await call(requested.page, kb.handle.namespace, after, before, count)]
    if not kb.handle.is_existing:
        full = len(runs) == count
        farthest = runs[0 if start.backwards else -1] if full else None
        runs += await _others(requested, kb, start, count, farthest)
    runs.sort(key=_order, reverse=not start.backwards)
    return runs[:count][::-1] if start.backwards else runs[:count]


async def find_run(requested: RequestedRuns, kb: KnowledgeBase, run_id: str) -> RequestedRun:
    """
    Raises:
        NotFoundError: there is no such run.
    """
    namespace = kb.handle.namespace
    run: RequestedRun | None = await call(requested.find, namespace, run_id)
    if run is not None:
        return run
    if not kb.handle.is_existing:
        infos = [await kb.arun(run_id)]
        return (await kb.handle.read(_as_requested, infos))[0]
    raise NotFoundError(f"knowledge base {namespace.kb!r} has no run {run_id!r}")


async def _others(
    requested: RequestedRuns,
    kb: KnowledgeBase,
    start: Cursor,
    count: int,
    farthest: RequestedRun | None,
) -> list[RequestedRun]:
    """Return up to `count` runs that were not requested, nearest to `start` first.

    Args:
        requested: the requested ones.
        kb: the knowledge base.
        start: the start of the page.
        count: the number of runs that the page needs.
        farthest: the last requested run that can be on the page; None if all can.
    """
    mark = None if start.key is None else RequestedRuns.mark(start.key)
    others: list[RequestedRun] = []
    while True:
        runs = await kb.handle.read(_beside, mark, count, newer=start.backwards)
        ids = [run.run_id for run in runs]
        requested_ids = await call(requested.requested_among, kb.handle.namespace, ids)
        others += [run for run in runs if run.run_id not in requested_ids]
        if len(runs) < count or len(others) >= count:
            return others
        mark = _order(runs[-1])
        if farthest is not None and (mark < _order(farthest)) != start.backwards:
            return others


def _order(run: RequestedRun) -> tuple[float, str]:
    return run.requested_at, run.run_id


def _beside(
    namespace: Namespace,
    catalog: Catalog,
    mark: tuple[float, str] | None,
    limit: int,
    *,
    newer: bool,
) -> list[RequestedRun]:
    runs = catalog.runs.list(namespace, limit, mark, newer=newer)
    return _as_requested(namespace, catalog, runs)


def _as_requested(
    namespace: Namespace, catalog: Catalog, runs: Sequence[RunInfo]
) -> list[RequestedRun]:
    """Return runs of the ledger as the server shows requested ones.

    The ledger does not see that the process of a run has died: no one holds its lease then.
    """
    has_died = any(run.ended_at is None for run in runs) and not catalog.runs.is_writing(namespace)
    return [
        RequestedRun(
            namespace,
            run.run_id,
            {"strategy": run.strategy},
            "interrupted" if has_died and run.ended_at is None else run.status,
            run.started_at,
            run.ended_at,
            outcome=_outcome(run),
        )
        for run in runs
    ]


def _outcome(run: RunInfo) -> dict[str, Any]:
    outcome: dict[str, Any] = {}
    if run.report is not None:
        outcome["report"] = run.report
    if run.error:
        outcome["error"] = ProblemError("ingest_failed", run.error).document()
    return outcome
