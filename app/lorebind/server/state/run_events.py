"""The stored events of workflow runs in the background, which any server can read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from lorebind.server.state.runs import WORKFLOW_RUNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lorebind.server.state.runs import RequestedRun
    from lorebind_knowledge.database.databases import Database

MOST_EVENTS = 10_000
MOST_CHARACTERS = 8_000_000
"""Maximum number of stored events of a run, and of their characters. The newest are kept."""
MOST_RUNS = 256
"""Number of ended runs of a tenant whose events are kept."""
DAYS = 7
"""Days after its end in which a run can be read."""

_RUNS_AT_ONCE = 1000
"""Maximum number of runs whose events are deleted in one transaction."""
_IDS = ("tenant", "project", "run_id")
_RUN = "tenant = :tenant and project = :project and run_id = :run_id"


class StoredEvent(NamedTuple):
    """An event of a run."""

    number: int
    kind: str
    text: str
    """The event as JSON in ASCII."""


class NewEvents(NamedTuple):
    """Events of one run that are to be stored."""

    run: RequestedRun
    events: Sequence[StoredEvent]
    first: int
    """The number of the first event of the run to keep."""


class StoredEvents:
    """The stored events of the workflow runs of a project. All methods are sync."""

    def __init__(self, database: Database, project: str) -> None:
        self._database = database
        self._project = project
        self._pruned: set[tuple[str, ...]] = set()
        """The runs whose events were deleted here but for the last one."""

    def sizes(self, run: RequestedRun) -> list[tuple[int, int]]:
        """Return the number and the length of each event of a run, in order."""
        with self._database.reading() as sql:
            return sql.run(
                f"select number, length(event) from server_run_events where {_RUN} order by number",
                **_ids(run),
            )

    def after(self, run: RequestedRun, number: int, limit: int) -> list[StoredEvent]:
        """Return the events of a run with larger numbers, in order."""
        with self._database.reading() as sql:
            rows = sql.run(
                f"select number, kind, event from server_run_events where {_RUN}"
                " and number > :number order by number limit :limit",
                **_ids(run),
                number=number,
                limit=limit,
            )
        return [StoredEvent(*row) for row in rows]

    def last(self, run: RequestedRun) -> int:
        """Return the number of the last event of a run; 0 if there is none."""
        with self._database.reading() as sql:
            last = sql.run(f"select max(number) from server_run_events where {_RUN}", **_ids(run))
        return last[0][0] or 0

    def append(self, owner: str, batches: Iterable[NewEvents]) -> None:
        """Store events, except of runs that have ended or belong to another server by now.

        After the end of a run, its events therefore do not change.
        """
        with self._database.writing() as sql:
            for run, events, first in batches:
                # Locked for sharing, so that the run neither ends nor changes hands before the
                # commit.
                if not sql.run(
                    f"select 1 from server_runs where {_RUN} and owner = :owner"
                    f" and finished_at is null{' for share' if sql.is_postgres else ''}",
                    **_ids(run),
                    owner=owner,
                ):
                    continue
                ids = _ids(run)
                sql.insert(
                    "server_run_events",
                    [
                        ids | {"number": event.number, "kind": event.kind, "event": event.text}
                        for event in events
                    ],
                )
                old = f"delete from server_run_events where {_RUN} and number < :first"
                sql.run(old, **ids, first=first)

    def prune(self) -> None:
        """Delete old runs, and the events of all but the newest runs of each tenant.

        The last event of a run stays with the run, so that its readers learn how many are lost.
        """
        ended = "project = :project and scope = :scope and finished_at is not null"
        whose = {"project": self._project, "scope": WORKFLOW_RUNS}
        query = (
            "select tenant, project, run_id from (select tenant, project, run_id, finished_at,"
            " row_number() over (partition by tenant order by finished_at desc) as place"
            f" from server_runs where {ended}) as newest where "
        )
        with self._database.reading() as sql:
            before = time.time() - DAYS * 24 * 3600
            old = sql.run(f"{query} finished_at < :before", **whose, before=before)
            beyond = {
                tuple(row) for row in sql.run(f"{query} place > :most", **whose, most=MOST_RUNS)
            }
        new = list(beyond - self._pruned)[:_RUNS_AT_ONCE]
        if old or new:
            with self._database.writing() as sql:
                for row in old:
                    ids = dict(zip(_IDS, row, strict=True))
                    sql.run(f"delete from server_run_events where {_RUN}", **ids)
                    sql.run(f"delete from server_runs where {_RUN}", **ids)
                for row in new:
                    ids = dict(zip(_IDS, row, strict=True))
                    newest = f"select max(number) from server_run_events where {_RUN}"
                    sql.run(
                        f"delete from server_run_events where {_RUN} and number < ({newest})", **ids
                    )
        self._pruned = (self._pruned & beyond) | {*new}


def _ids(run: RequestedRun) -> dict[str, str]:
    namespace = run.namespace
    return {"tenant": namespace.tenant, "project": namespace.project, "run_id": run.run_id}
