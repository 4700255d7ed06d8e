"""The workers that take requested runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lorebind.server.state.runs import STALE_SECONDS
from lorebind_knowledge.scale.engine import WorkerInfo

if TYPE_CHECKING:
    from lorebind_knowledge.database.databases import Database
    from lorebind_knowledge.database.sql import Sql

_FORGOTTEN_SECONDS = 3600.0
"""Seconds after which a worker that has ended without a word is deleted."""


class LiveWorkers(NamedTuple):
    """Numbers of workers of which something was heard a few seconds ago."""

    ours: int
    """Those with the same declarations."""
    others: int
    """Those with others, which take no runs of this project as it is now."""

    @property
    def missing(self) -> str:
        """Why a run has to wait; empty if a worker will take it."""
        if self.ours:
            return ""
        if self.others:
            return (
                "all workers have other declarations of the project; start workers with the "
                "current ones"
            )
        return "there is no worker for runs; start one with: lorebind worker"


class Workers:
    """The workers of a project, each of which is recorded every few seconds.

    All methods are sync.
    """

    def __init__(self, database: Database, project: str, declarations: str) -> None:
        """
        Args:
            database: the state of the servers.
            project: the name of the project.
            declarations: the digest of the declarations in the files of the project.
        """
        self._database = database
        self._ids = {"project": project, "declarations": declarations}

    def record(self, worker: str) -> None:
        """Record that a worker lives."""
        with self._database.writing() as sql:
            self._remove(sql, worker)
            sql.run(
                "insert into server_workers (project, declarations, worker, beat)"
                f" values (:project, :declarations, :worker, {sql.now})",
                worker=worker,
                **self._ids,
            )
            old = f"delete from server_workers where abs({sql.now} - beat) > :old"
            sql.run(old, old=_FORGOTTEN_SECONDS)

    def remove(self, worker: str) -> None:
        """Record that a worker ends."""
        with self._database.writing() as sql:
            self._remove(sql, worker)

    def live(self) -> LiveWorkers:
        with self._database.reading() as sql:
            ((ours, every),) = sql.run(
                "select coalesce(sum(case when declarations = :declarations then 1 else 0 end), 0),"
                " count(*) from server_workers"
                f" where project = :project and abs({sql.now} - beat) <= :stale",
                stale=STALE_SECONDS,
                **self._ids,
            )
        return LiveWorkers(int(ours), int(every - ours))

    def all(self) -> list[WorkerInfo]:
        """Return the live workers with the same declarations."""
        with self._database.reading() as sql:
            rows = sql.run(
                f"select worker, {sql.now} - beat, (select count(*) from server_runs where"
                " owner = worker and finished_at is null) from server_workers where"
                f" project = :project and declarations = :declarations"
                f" and abs({sql.now} - beat) <= :stale order by worker",
                stale=STALE_SECONDS,
                **self._ids,
            )
        return [
            WorkerInfo(worker, "ingests", "", None, busy, max(float(silent), 0.0))
            for worker, silent, busy in rows
        ]

    def _remove(self, sql: Sql, worker: str) -> None:
        sql.run("delete from server_workers where worker = :worker", worker=worker)
