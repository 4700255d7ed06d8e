"""Ingests requested over the API: one per knowledge base at a time, each executed once."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lorebind.server.state.tables import lock
from lorebind_config.namespace import Namespace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lorebind_knowledge.database.databases import Database
    from lorebind_knowledge.database.sql import Sql

KEY_SECONDS = 24 * 3600
"""Seconds that an idempotency key is remembered."""
STALE_SECONDS = 10.0
"""Seconds without a sign of life after which a server counts as ended."""
BEAT_SECONDS = 2.0

_OWNER = "tenant, project, scope, kb"
_OURS = " and ".join(f"{name} = :{name}" for name in _OWNER.split(", "))
_COLUMNS = f"{_OWNER}, run_id, request, status, requested_at, finished_at, cancelled, outcome"


@dataclass(frozen=True, slots=True)
class RequestedRun:
    """A requested ingest or reindex."""

    namespace: Namespace
    run_id: str
    request: Mapping[str, Any]
    """The request: `action` and its arguments."""
    status: str
    """`running`, `interrupted`, or the status in the report."""
    requested_at: float
    """Seconds since 1970."""
    finished_at: float | None = None
    cancelled: bool = False
    """Whether its cancellation was requested."""
    outcome: Mapping[str, Any] = field(default_factory=dict)
    """A `report`, or an `error` as a problem document."""


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
    one, or its next start, takes the run over.
    """

    def __init__(self, database: Database, project: str) -> None:
        self._database = database
        self._project = project
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
    ) -> tuple[RequestedRun, bool]:
        """Store a new run, unless one is running or the idempotency key was used before.

        Args:
            namespace: the knowledge base.
            request: the request.
            key: the idempotency key, or None.
            digest: a digest that must be equal for requests with the same key.
            alone: whether it is refused while another such run of the knowledge base has not ended.

        Returns:
            The run, and whether it is new: false if the key was used before.

        Raises:
            KeyTakenError: the key was used with another digest.
            UnderWayError: another run of the knowledge base has not ended.
        """
        now = time.time()
        with self._database.writing() as sql:
            lock(sql, "server_runs")
            if key is not None and (before := self._of_key(sql, namespace, key, digest, now)):
                return before, False
            open_ = f"{_OURS} and finished_at is null and alone = 1"
            if alone and (under_way := self._read(sql, open_, namespace)):
                raise UnderWayError(under_way[0])
            run = RequestedRun(namespace, uuid.uuid4().hex[:12], request, "running", now)
            sql.insert(
                "server_runs",
                [
                    {
                        **_owner(namespace),
                        "run_id": run.run_id,
                        "request": json.dumps(request),
                        "status": run.status,
                        "requested_at": now,
                        "owner": self.owner,
                        "beat": 0.0,
                        "cancelled": 0,
                        "alone": int(alone),
                    }
                ],
            )
            self._beat(sql, run)
            if key is not None:
                whose = {"tenant": namespace.tenant, "project": namespace.project, "key": key}
                used = {"digest": digest, "run_id": run.run_id, "used_at": now}
                sql.insert("server_idempotency", [whose | used])
        return run, True

    def forget(self, run: RequestedRun) -> None:
        """Delete a request that was refused, together with its idempotency key."""
        with self._database.writing() as sql:
            where = {**_owner(run.namespace), "run_id": run.run_id}
            sql.run(f"delete from server_runs where {_OURS} and run_id = :run_id", **where)
            sql.run(
                "delete from server_idempotency where tenant = :tenant and project = :project"
                " and run_id = :run_id",
                tenant=run.namespace.tenant,
                project=run.namespace.project,
                run_id=run.run_id,
            )

    def find(self, namespace: Namespace, run_id: str) -> RequestedRun | None:
        with self._database.reading() as sql:
            found = self._read(sql, f"{_OURS} and run_id = :run_id", namespace, run_id=run_id)
        return found[0] if found else None

    def page(
        self, namespace: Namespace, after: str | None, before: str | None, limit: int
    ) -> Sequence[RequestedRun]:
        """Return runs, newest first.

        Args:
            namespace: the knowledge base.
            after: the key (see `key`) of the run before the page.
            before: the key of the run after the page.
            limit: the maximum number of runs. With `before`, those nearest to it.
        """
        place = "(requested_at, run_id)"
        where, values, order = _OURS, {}, "desc"
        if (mark := after or before) is not None:
            at, _, run_id = mark.partition(" ")
            where += f" and {place} {'<' if after else '>'} (:at, :run_id)"
            values = {"at": float(at), "run_id": run_id}
            order = "desc" if after else "asc"
        order = f"order by requested_at {order}, run_id {order} limit :limit"
        with self._database.reading() as sql:
            found = self._read(sql, where, namespace, order, limit=limit, **values)
        return found if order.startswith("order by requested_at desc") else found[::-1]

    KEY = r"[0-9]{1,12}\.[0-9]{1,9} [0-9a-f]{12}"
    """The regular expression of the keys of runs."""

    @staticmethod
    def key(run: RequestedRun) -> str:
        """Return the unique key of a run, by which runs are sorted."""
        return f"{run.requested_at!r} {run.run_id}"

    def cancel(self, run: RequestedRun) -> None:
        """Ask the server that works on a run to cancel it."""
        self._update(run, "cancelled = 1", " and finished_at is null")

    def beat(self, run: RequestedRun) -> bool:
        """Record that this server still works on a run, and return whether it should continue."""
        with self._database.writing() as sql:
            self._beat(sql, run)
            where = f"{_OURS} and run_id = :run_id and owner = :owner and cancelled = 0"
            return bool(self._read(sql, where, run.namespace, run_id=run.run_id, owner=self.owner))

    def finish(self, run: RequestedRun, status: str, outcome: Mapping[str, Any]) -> None:
        """Store the end of a run, if this server still owns it."""
        values = {"status": status, "outcome": json.dumps(outcome), "now": time.time()}
        what = "status = :status, outcome = :outcome, finished_at = :now"
        self._update(run, what, " and owner = :owner", owner=self.owner, **values)

    def interrupt(self, run: RequestedRun) -> None:
        """Release a run because this server stops, so that another one or the next start resumes
        it."""
        what = "status = 'interrupted', owner = '', beat = 0"
        self._update(run, what, " and owner = :owner", owner=self.owner)

    def take_over(self) -> list[RequestedRun]:
        """Take over the runs that no server works on."""
        with self._database.reading() as sql:  # takes no lock, and usually finds nothing
            if not self._stale(sql):
                return []
        with self._database.writing() as sql:
            lock(sql, "server_runs")
            found = self._stale(sql)
            for run in found:
                where = f"{_OURS} and run_id = :run_id"
                sql.run(
                    f"update server_runs set owner = :owner, status = 'running' where {where}",
                    owner=self.owner,
                    run_id=run.run_id,
                    **_owner(run.namespace),
                )
                self._beat(sql, run)
        return found

    def _stale(self, sql: Sql) -> list[RequestedRun]:
        """Return the runs whose last beat is long ago, or in the future: the clock was set back.

        Uses the clock of the database, because those of servers may differ.
        """
        query = (
            f"select {_COLUMNS} from server_runs where project = :project"
            f" and finished_at is null and abs({sql.now} - beat) > :stale"
        )
        rows = sql.run(query, project=self._project, stale=STALE_SECONDS)
        return [_run(*row) for row in rows]

    def _beat(self, sql: Sql, run: RequestedRun) -> None:
        where = f"{_OURS} and run_id = :run_id and owner = :owner"
        sql.run(
            f"update server_runs set beat = {sql.now} where {where}",
            owner=self.owner,
            run_id=run.run_id,
            **_owner(run.namespace),
        )

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
        query = (
            f"select {_COLUMNS} from server_runs where tenant = :tenant and project = :project"
            " and run_id = :run_id"
        )
        where = {"tenant": namespace.tenant, "project": namespace.project, "run_id": run_id}
        run = _run(*sql.run(query, **where)[0])
        if same != digest:
            raise KeyTakenError(run)
        return run

    def _read(
        self, sql: Sql, where: str, namespace: Namespace, rest: str = "", **values: Any
    ) -> list[RequestedRun]:
        query = f"select {_COLUMNS} from server_runs where {where} {rest}"
        return [_run(*row) for row in sql.run(query, **_owner(namespace), **values)]

    def _update(self, run: RequestedRun, what: str, where: str, **values: Any) -> None:
        with self._database.writing() as sql:
            sql.run(
                f"update server_runs set {what} where {_OURS} and run_id = :run_id{where}",
                **_owner(run.namespace),
                run_id=run.run_id,
                **values,
            )


def _owner(namespace: Namespace) -> dict[str, str]:
    return {name: getattr(namespace, name) for name in _OWNER.split(", ")}


def _run(
    tenant: str,
    project: str,
    scope: str,
    kb: str,
    run_id: str,
    request: str,
    status: str,
    requested_at: float,
    finished_at: float | None,
    cancelled: int,
    outcome: str | None,
) -> RequestedRun:
    return RequestedRun(
        Namespace(tenant, project, scope, kb),
        run_id,
        json.loads(request),
        status,
        requested_at,
        finished_at,
        bool(cancelled),
        json.loads(outcome) if outcome else {},
    )
