"""The past and current ingests of a knowledge base, from the ledger."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.catalog.leases import lease_name
from lorebind_knowledge.catalog.rows import OURS, check_types, decoding, owner

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.catalog.leases import Lease
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
    progress: Mapping[str, int] | None = None
    """How far it is, at most a second ago: the numbers of `documents` to read, of `documents_read`,
    of their new `chunks`, and of `chunks_embedded`. None if it has not counted anything yet."""


class Runs:
    """Reads the runs that the ledger records, and stores how far they are.

    Each method is one transaction.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(
        self,
        namespace: Namespace,
        limit: int | None = None,
        mark: tuple[float, str] | None = None,
        *,
        newer: bool = False,
    ) -> Sequence[RunInfo]:
        """Return the runs of a knowledge base, latest first; with `newer`, earliest first.

        Args:
            namespace: the knowledge base.
            limit: maximum number of runs; None means all.
            mark: start and id of a run; only runs that started before it, or after it with `newer`.
            newer: whether to begin with the earliest.
        """
        order, sign = ("asc", ">") if newer else ("desc", "<")
        where, values = "", {}
        if mark is not None:
            where = f" and (started_at, run_id) {sign} (:at, :id)"
            values = {"at": mark[0], "id": mark[1]}
        where += f" order by started_at {order}, run_id {order}"
        end = "" if limit is None else " limit :limit"
        return self._select(namespace, f"{where}{end}", limit=limit, **values)

    def latest_good(self, namespace: Namespace) -> RunInfo | None:
        """Return the latest run that has completed, or None."""
        good = "status in ('completed', 'completed_with_failures')"
        runs = self._select(namespace, f" and {good} order by started_at desc limit 1")
        return runs[0] if runs else None

    def get(self, namespace: Namespace, run_id: str) -> RunInfo | None:
        """Return a run, or None if it does not exist."""
        runs = self._select(namespace, " and run_id = :run_id", run_id=run_id)
        return runs[0] if runs else None

    def is_writing(self, namespace: Namespace) -> bool:
        """Return whether a process holds the lease of a knowledge base, or has died just now."""
        with self._database.reading() as sql:
            query = f"select 1 from catalog_leases where name = :name and expires > {sql.now}"
            return bool(sql.run(query, name=lease_name(namespace)))

    def store_progress(self, lease: Lease, run_id: str, progress: Mapping[str, int]) -> None:
        """Store how far a run is, unless it has ended or another process has taken over."""
        with self._database.writing() as sql:
            # Checks the lease without its fence, so that no other write of the run waits for this.
            sql.run(
                f"update catalog_runs set progress = :progress where {OURS} and run_id = :run_id"
                " and status = 'running' and exists (select 1 from catalog_leases l"
                " where l.name = :lease and l.number = :number)",
                **owner(lease.namespace),
                run_id=run_id,
                progress=json.dumps(progress),
                lease=lease.name,
                number=lease.number,
            )

    def _select(self, namespace: Namespace, which: str, **values: Any) -> Sequence[RunInfo]:
        query = (
            "select run_id, status, strategy, started_at, finished_at, report, progress"
            f" from catalog_runs where {OURS}{which}"
        )
        runs = []
        with decoding(self._database, self._database.reading(), "runs") as sql:
            for row in sql.run(query, **owner(namespace), **values):
                *columns, report_data, progress_data = row
                ended = type(None) if columns[1] == "running" else float
                check_types(columns, (str, str, str, float, ended))
                report, progress = decoded(report_data), decoded(progress_data)
                error = report.pop("error", "") if report else ""
                runs.append(RunInfo(*[*columns, error, report, progress]))
        return runs


def decoded(data: Any) -> dict[str, Any] | None:
    """Return a column of JSON, which PostgreSQL's driver has decoded already."""
    value = json.loads(data) if isinstance(data, str) else data
    return None if value is None else dict(value)
