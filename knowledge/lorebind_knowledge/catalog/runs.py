"""The past and current ingests of a knowledge base, from the ledger."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.catalog.rows import OURS, check_types, decoding, owner

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.database.databases import Database


@dataclass(frozen=True, slots=True)
class RunInfo:
    """An ingest of a knowledge base."""

    run_id: str
    status: str
    """`running`, or a status of `IngestReport`. An interrupted run counts as `running` until the
    next one starts, and as `failed` after that."""
    strategy: str
    started_at: float
    """The start, in seconds since 1970."""
    ended_at: float | None
    """The end, in seconds since 1970; None while the run is running."""
    error: str
    """The message of the error that ended the run; empty without one, and for interrupted runs."""
    report: Mapping[str, Any] | None
    """The fields of its `IngestReport`, as far as the run got; None while it is running, and for
    interrupted runs."""


class Runs:
    """Reads the runs that the ledger records. Each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(
        self, namespace: Namespace, limit: int | None = None, before: RunInfo | None = None
    ) -> Sequence[RunInfo]:
        """Return the runs of a knowledge base, latest first.

        Args:
            namespace: the knowledge base.
            limit: maximum number of runs; None means all.
            before: only runs that started before this one.
        """
        where, values = "", {}
        if before is not None:
            where = " and (started_at, run_id) < (:started_at, :run_id)"
            values = {"started_at": before.started_at, "run_id": before.run_id}
        order = " order by started_at desc, run_id desc"
        end = "" if limit is None else " limit :limit"
        return self._select(namespace, f"{where}{order}{end}", limit=limit, **values)

    def get(self, namespace: Namespace, run_id: str) -> RunInfo | None:
        """Return a run, or None if it does not exist."""
        runs = self._select(namespace, " and run_id = :run_id", run_id=run_id)
        return runs[0] if runs else None

    def _select(self, namespace: Namespace, which: str, **values: Any) -> Sequence[RunInfo]:
        query = (
            "select run_id, status, strategy, started_at, finished_at, report from catalog_runs"
            f" where {OURS}{which}"
        )
        runs = []
        with decoding(self._database, self._database.reading(), "runs") as sql:
            for *columns, encoded in sql.run(query, **owner(namespace), **values):
                ended = type(None) if columns[1] == "running" else float
                check_types(columns, (str, str, str, float, ended))
                decoded = json.loads(encoded) if isinstance(encoded, str) else encoded
                report = None if decoded is None else dict(decoded)
                error = report.pop("error", "") if report else ""
                runs.append(RunInfo(*[*columns, error, report]))
        return runs
