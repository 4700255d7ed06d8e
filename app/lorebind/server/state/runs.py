"""Runs requested over the API, each executed once: ingests, one at a time, and workflows."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lorebind.server.state.tables import lock
from lorebind_config.namespace import Namespace

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lorebind_knowledge.database.databases import Database
    from lorebind_knowledge.database.sql import Sql

KEY_SECONDS = 24 * 3600
"""Seconds that an idempotency key is remembered."""
CHANNEL = "lorebind_runs"
"""The channel of PostgreSQL that wakes those who work on runs."""
STALE_SECONDS = 10.0
"""Seconds without a sign of life after which a server counts as ended."""
BEAT_SECONDS = 2.0

WORKFLOW_RUNS = "workflow-runs"
"""The scope of the runs of workflows, whose namespaces have the workflow's id."""

_OWNER = "tenant, project, scope, kb"
_OURS = " and ".join(f"{name} = :{name}" for name in _OWNER.split(", "))
_THIS = f"{_OURS} and run_id = :run_id"
_COLUMNS = f"{_OWNER}, run_id, request, status, requested_at, finished_at, cancelled, outcome"


@dataclass(frozen=True, slots=True)
class RequestedRun:
    """A requested ingest or reindex, or a run of a workflow in the background."""

    namespace: Namespace
    """The knowledge base; of a workflow, see `of_workflow`."""
    run_id: str
    request: Mapping[str, Any]
    """The request: `action` and its arguments."""
    status: str
    """`waiting` for a worker, `running`, `interrupted`, or the status in the report or the
    result."""
    requested_at: float
    """Seconds since 1970."""
    finished_at: float | None = None
    cancelled: bool = False
    """Whether its cancellation was requested."""
    outcome: Mapping[str, Any] = field(default_factory=dict)
    """A `report` or `result`, or an `error` as a problem document."""

    @property
    def was_requested(self) -> bool:
        """Whether it was requested from a server; Python or the command line began all others."""
        return "action" in self.request

    @property
    def is_good(self) -> bool:
        """Whether it has completed, or may still do so."""
        return self.finished_at is None or self.status.startswith("completed")

    @property
    def ids(self) -> dict[str, Any]:
        """The values of the primary key."""
        return {**_owner(self.namespace), "run_id": self.run_id}


@dataclass
class KeyTakenError(Exception):
    """An idempotency key was used with another request."""

    run: RequestedRun


@dataclass
class UnderWayError(Exception):
    """Another run of the knowledge base has not ended."""

    run: RequestedRun


class RequestedRuns:
    """The requested runs of a project. All methods are sync.

    A server that works on a run updates it every few seconds (`beat`). If the server ends, another
    one with the same declarations, or its next start, takes the run over. With other declarations,
    it might delete documents that the request never meant.
    """

    def __init__(
        self,
        database: Database,
        project: str,
        declarations: str = "",
        *,
        of_workflows: bool = False,
    ) -> None:
        """
        Args:
            database: the state of the server.
            project: the name of the project.
            declarations: the digest of the declarations in the files of the project.
            of_workflows: whether they are the runs of workflows, or else ingests.
        """
        self._database = database
        self._project = project
        self.declarations = declarations
        """The digest."""
        self._kind = f"scope {'=' if of_workflows else '<>'} '{WORKFLOW_RUNS}'"
        self.owner = uuid.uuid4().hex
        """The id of this server in this process."""

    def request(
        self,
        namespace: Namespace,
        request: Mapping[str, Any],
        key: str | None = None,
        digest: str = "",
        *,
        alone: bool = True,
        for_any_server: bool = False,
        for_workers: bool = False,
    ) -> tuple[RequestedRun, bool]:
        """Store a new run, unless one is running or the idempotency key was used before.

        Args:
            namespace: the knowledge base, or the workflow.
            request: the request.
            key: the idempotency key, or None.
            digest: a digest that must be equal for requests with the same key.
            alone: whether it is refused while another such run of the knowledge base has not ended.
            for_any_server: whether a server with other declarations may take it over, too.
            for_workers: whether it waits until another process takes it.

        Returns:
            The run, and whether it is new: false if the key was used before.

        Raises:
            KeyTakenError: the key was used with another digest.
            UnderWayError: another run of the knowledge base has not ended.
        """
        now = time.time()
        with self._database.writing() as sql:
            # Requests that come to two servers at once must not both find that nothing runs.
            lock(sql, "server_runs")
            if key is not None and (before := self._of_key(sql, namespace, key, digest, now)):
                return before, False
            open_ = f"{_OURS} and finished_at is null and alone = 1"
            if alone and (under_way := _read(sql, open_, **_owner(namespace))):
                raise UnderWayError(under_way[0])
            status, owner = ("waiting", "") if for_workers else ("running", self.owner)
            run = RequestedRun(namespace, uuid.uuid4().hex[:12], request, status, now)
            row = run.ids | {"request": json.dumps(request), "status": run.status}
            row |= {"requested_at": now, "owner": owner, "beat": 0.0, "cancelled": 0}
            row |= {"declarations": "" if for_any_server else self.declarations}
            sql.insert("server_runs", [row | {"alone": int(alone)}])
            # By the clock of the database, by which other servers measure it.
            _update(sql, run, f"beat = {sql.now}")
            if for_workers:
                _wake(sql)
            if key is not None:
                whose = {"tenant": namespace.tenant, "project": namespace.project, "key": key}
                used = {"digest": digest, "run_id": run.run_id, "used_at": now}
                sql.insert("server_idempotency", [whose | used])
        return run, True

    def forget(self, run: RequestedRun) -> None:
        """Delete a request that was refused, together with its idempotency key."""
        with self._database.writing() as sql:
            sql.run(f"delete from server_runs where {_THIS}", **run.ids)
            sql.run(
                "delete from server_idempotency where tenant = :tenant and project = :project"
                " and run_id = :run_id",
                tenant=run.namespace.tenant,
                project=run.namespace.project,
                run_id=run.run_id,
            )

    def find(self, namespace: Namespace, run_id: str) -> RequestedRun | None:
        with self._database.reading() as sql:
            runs = _read(sql, _THIS, **_owner(namespace), run_id=run_id)
        return runs[0] if runs else None

    def open_or_waiting(self) -> list[RequestedRun]:
        """Return the runs that have not ended, and those that ended because they wait."""
        where = f"project = :project and {self._kind}"
        with self._database.reading() as sql:
            return _read(
                sql,
                f"{where} and (finished_at is null or status = 'waiting')",
                project=self._project,
            )

    def requested_among(self, namespace: Namespace, run_ids: Collection[str]) -> set[str]:
        """Return which of these ids are those of requested runs."""
        if not run_ids:
            return set()
        with self._database.reading() as sql:
            query = f"select run_id from server_runs where {_OURS} and run_id in (:*run_ids)"
            rows = sql.run(query, **_owner(namespace), run_ids=list(run_ids))
        return {run_id for (run_id,) in rows}

    def same_since(
        self, namespace: Namespace, request: Mapping[str, Any], since: float
    ) -> RequestedRun | None:
        """Return the latest run with an equal request that has not ended, or has completed since.

        Args:
            namespace: the knowledge base.
            request: the request.
            since: the earliest end, in seconds since 1970.
        """
        where = f"{_OURS} and (finished_at is null or finished_at >= :since)"
        with self._database.reading() as sql:
            runs = _read(
                sql, f"{where} order by requested_at desc", **_owner(namespace), since=since
            )
        return next((run for run in runs if run.request == request and run.is_good), None)

    def page(
        self, namespace: Namespace, after: str | None, before: str | None, limit: int
    ) -> Sequence[RequestedRun]:
        """Return runs, newest first.

        Args:
            namespace: the knowledge base, or the workflow.
            after: the key (see `key`) of the run before the page.
            before: the key of the run after the page.
            limit: the maximum number of runs. With `before`, those nearest to it.
        """
        where, values = _OURS, _owner(namespace)
        order, sign = ("asc", ">") if before else ("desc", "<")
        if (mark := after or before) is not None:
            at, run_id = self.mark(mark)
            where += f" and (requested_at, run_id) {sign} (:at, :run_id)"
            values |= {"at": at, "run_id": run_id}
        where += f" order by requested_at {order}, run_id {order} limit :limit"
        with self._database.reading() as sql:
            runs = _read(sql, where, **values, limit=limit)
        return runs[::-1] if before else runs

    KEY = r"[0-9]{1,12}\.[0-9]{1,9} .+"
    """The regular expression of the keys of runs."""

    @staticmethod
    def key(run: RequestedRun) -> str:
        """Return the unique key of a run, by which runs are sorted."""
        return f"{run.requested_at!r} {run.run_id}"

    @staticmethod
    def mark(key: str) -> tuple[float, str]:
        """Return the time and the id in a key."""
        at, _, run_id = key.partition(" ")
        return float(at), run_id

    def cancel(self, run: RequestedRun) -> None:
        """Ask the process that works on a run to cancel it. One that still waits has ended then."""
        with self._database.writing() as sql:
            _update(sql, run, "cancelled = 1", " and finished_at is null")
            # Nobody works on it, so nobody else would end it.
            _update(sql, run, _END, f"{_OPEN} and owner = ''", **_end("cancelled", {}))
            _wake(sql)

    def beat(self, run_ids: list[str]) -> set[str]:
        """Record that this server still works on these runs, and return those to continue."""
        if not run_ids:
            return set()
        ours = {"project": self._project, "owner": self.owner, "run_ids": run_ids}
        where = "project = :project and owner = :owner and run_id in (:*run_ids)"
        with self._database.writing() as sql:
            sql.run(f"update server_runs set beat = {sql.now} where {where}", **ours)
            rows = sql.run(
                f"select run_id from server_runs where {where} and cancelled = 0", **ours
            )
        return {run_id for (run_id,) in rows}

    def finish(
        self, run: RequestedRun, status: str, outcome: Mapping[str, Any], *, ours: bool = True
    ) -> None:
        """Store the end of a run, if it has not ended.

        Args:
            run: the run.
            status: its status.
            outcome: its outcome.
            ours: whether to do so only if this server still owns the run.
        """
        condition = " and finished_at is null" + (" and owner = :owner" if ours else "")
        values = _end(status, outcome) | ({"owner": self.owner} if ours else {})
        with self._database.writing() as sql:
            _update(sql, run, _END, condition, **values)

    def interrupt(self, run: RequestedRun) -> None:
        """Release a run because this server stops, so that another one or the next start resumes
        it."""
        with self._database.writing() as sql:
            self._update_ours(sql, run, f"status = 'interrupted', owner = '', beat = {sql.now}")
            _wake(sql)

    def interrupt_all(self) -> None:
        """Release all runs that this process still has."""
        with self._database.reading() as sql:
            runs = _read(sql, f"{self._kind}{_OPEN} and owner = :owner", owner=self.owner)
        for run in runs:
            self.interrupt(run)

    def vouch(self) -> int:
        """Record that waiting runs with these declarations still have a server, and return their
        number."""
        with self._database.writing() as sql:
            rows = sql.run(
                f"update server_runs set beat = {sql.now} where project = :project and {self._kind}"
                f"{_OPEN} and owner = '' and declarations = :declarations returning run_id",
                project=self._project,
                declarations=self.declarations,
            )
        return len(rows)

    def are_there_unattended(self) -> bool:
        """Whether there are runs to take over."""
        with self._database.reading() as sql:
            return bool(self._unattended(sql, ours=True))

    def take_over(self, most: int | None = None) -> list[RequestedRun]:
        """Take over the runs that no process works on, and those that were cancelled meanwhile.

        Args:
            most: maximum number of runs, without the cancelled ones; None means all.
        """
        with self._database.reading() as sql:  # takes no lock, and usually finds nothing
            if not self._to_take(sql, most):
                return []
        with self._database.writing() as sql:
            lock(sql, "server_runs")
            runs = self._to_take(sql, most)
            for run in runs:
                changes = f"owner = :new_owner, status = 'running', beat = {sql.now}"
                _update(sql, run, changes, new_owner=self.owner)
        return runs

    def end_orphans(
        self, seconds: float, status: str, outcome: Mapping[str, Any]
    ) -> list[RequestedRun]:
        """End the runs that this server may not take over, because its declarations differ.

        Args:
            seconds: the time since the last sign of life of their servers, for which servers with
                the same declarations could have taken them over.
            status: the status to store.
            outcome: the outcome to store.

        Returns:
            The runs that were ended.
        """
        with self._database.reading() as sql:
            if not self._unattended(sql, ours=False, seconds=seconds):
                return []
        with self._database.writing() as sql:
            lock(sql, "server_runs")
            runs = self._unattended(sql, ours=False, seconds=seconds)
            for run in runs:
                _update(sql, run, f"{_END}, owner = ''", **_end(status, outcome))
        return runs

    def _to_take(self, sql: Sql, most: int | None) -> list[RequestedRun]:
        runs = self._unattended(sql, ours=True)
        cancelled = [run for run in runs if run.cancelled]
        return [*cancelled, *[run for run in runs if not run.cancelled][:most]]

    def _unattended(self, sql: Sql, *, ours: bool, seconds: float = 0) -> list[RequestedRun]:
        """Return the runs that no server works on: their server has released them, or its last beat
        is long ago, or in the future: the clock was set back.

        Uses the clock of the database, because those of servers may differ.

        Args:
            sql: the transaction.
            ours: whether to return those that this server may take over, or all others.
            seconds: the minimum time since the last beat.
        """
        # A server of the same declarations vouches for those that wait for a worker.
        released = "owner = ''" if ours else "owner = '' and status <> 'waiting'"
        may = "(cancelled = 1 or declarations in ('', :declarations))"
        # The clock may have been set back, so a beat far in the future counts as stale too.
        where = (
            f"project = :project and {self._kind} and finished_at is null"
            f" and {'' if ours else 'not '}{may}"
            f" and ({released} or abs({sql.now} - beat) > :stale)"
            f" and abs({sql.now} - beat) >= :seconds order by requested_at"
        )
        return _read(
            sql,
            where,
            project=self._project,
            declarations=self.declarations,
            stale=STALE_SECONDS,
            seconds=seconds,
        )

    def _update_ours(self, sql: Sql, run: RequestedRun, changes: str, **values: Any) -> None:
        """Update a run, unless another server has taken it over."""
        _update(sql, run, changes, " and owner = :owner", owner=self.owner, **values)

    def _of_key(
        self, sql: Sql, namespace: Namespace, key: str, digest: str, now: float
    ) -> RequestedRun | None:
        sql.run("delete from server_idempotency where used_at < :old", old=now - KEY_SECONDS)
        used = sql.run(
            "select digest, run_id from server_idempotency"
            " where tenant = :tenant and project = :project and key = :key",
            tenant=namespace.tenant,
            project=namespace.project,
            key=key,
        )
        if not used:
            return None
        ((same, run_id),) = used
        where = "tenant = :tenant and project = :project and run_id = :run_id"
        ids = {"tenant": namespace.tenant, "project": namespace.project, "run_id": run_id}
        (run,) = _read(sql, where, **ids)
        if same != digest:
            raise KeyTakenError(run)
        return run


def _owner(namespace: Namespace) -> dict[str, Any]:
    return {name: getattr(namespace, name) for name in _OWNER.split(", ")}


_OPEN = " and finished_at is null"
_END = "status = :status, outcome = :outcome, finished_at = :now"


def _end(status: str, outcome: Mapping[str, Any]) -> dict[str, Any]:
    return {"status": status, "outcome": json.dumps(outcome), "now": time.time()}


def _wake(sql: Sql) -> None:
    """Wake those who work on runs, when the transaction is committed."""
    if sql.is_postgres:
        sql.run("select pg_notify(:channel, '')", channel=CHANNEL)


def _update(sql: Sql, run: RequestedRun, changes: str, condition: str = "", **values: Any) -> None:
    query = f"update server_runs set {changes} where {_THIS}{condition}"
    sql.run(query, **run.ids, **values)


def _read(sql: Sql, where: str, **values: Any) -> list[RequestedRun]:
    rows = sql.run(f"select {_COLUMNS} from server_runs where {where}", **values)
    return [_run(row) for row in rows]


def _run(row: Sequence[Any]) -> RequestedRun:
    *namespace, run_id, request, status, requested_at, finished_at, cancelled, outcome = row
    return RequestedRun(
        Namespace(*namespace),
        run_id,
        json.loads(request),
        status,
        requested_at,
        finished_at,
        bool(cancelled),
        json.loads(outcome) if outcome else {},
    )
