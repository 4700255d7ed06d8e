"""The engine `distributed`: the queue procrastinate, in the PostgreSQL of the catalog.

Its tables have a schema of their own beside the catalog's. Each embedder has a queue, and each
queue a worker of procrastinate, so that a slow embedder does not keep the slots of others.
"""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING

from lorebind_config.plugins import import_extra
from lorebind_knowledge.database.postgres_notifications import Notifications, refuse_pooler
from lorebind_knowledge.database.tables import Tables
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.scale.engine import WorkerInfo
from lorebind_knowledge.scale.procrastinate_connector import connector, registering

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from lorebind_knowledge.database.databases import PostgresDatabase

_HEARTBEAT_SECONDS = 2.0
_STALLED_HEARTBEATS = 3
"""Heartbeats that a worker may miss before its batches are given to others."""
_KEPT_HEARTBEATS = 30
"""Heartbeats that a worker may miss before procrastinate forgets it."""
_POLL_SECONDS = 2.0
"""Seconds between two looks into a queue, in case that a notification was lost."""
_CONNECTIONS = 2
"""Maximum number of connections for its statements, which are short. Another one is for
notifications."""
_AGAIN_SECONDS = 1.0
"""Seconds until a worker that has ended, as in an outage, registers again."""
_TASK = "lorebind.embed"
_log = logging.getLogger("lorebind.worker")
# The trigger of procrastinate tells workers of new jobs only, and a job that is given back is an
# update of its row.
_NOTIFY = (
    "select pg_notify('procrastinate_queue_v1#' || :queue,"
    """ '{"type": "job_inserted", "job_id": 0}')"""
)
_LIVE = (
    "select coalesce(sum(slots), 0) from lorebind_slots join procrastinate_workers w"
    " on w.id = worker where queue = :queue"
    " and w.last_heartbeat > now() - make_interval(secs => :stalled)"
)
_WORKERS = (
    "select w.id, queue, slots, (select count(*) from procrastinate_jobs j where"
    " j.worker_id = w.id and j.status = 'doing'), extract(epoch from now() - w.last_heartbeat)"
    " from lorebind_slots join procrastinate_workers w on w.id = worker where queue in (:*queues)"
    " and w.last_heartbeat > now() - make_interval(secs => :stalled) order by w.id"
)
# In one statement, because several ingests look after the same queue.
_REDELIVER = """with stalled as (
  select j.id from procrastinate_jobs j left join procrastinate_workers w on w.id = j.worker_id
  where j.status = 'doing' and j.queue_name = :queue and (w.id is null
    or w.last_heartbeat < now() - make_interval(secs => :stalled))
  for update of j skip locked
) select procrastinate_retry_job_v2(id, now(), null, null, null) from stalled"""


def make(database: PostgresDatabase) -> ProcrastinateEngine:
    import_extra("procrastinate", extra="scale", purpose="ingestion.engine: distributed")
    # Python prints the warnings of a logger without a handler. They would repeat ours.
    logging.getLogger("procrastinate").addHandler(logging.NullHandler())
    return ProcrastinateEngine(database)


class ProcrastinateEngine:
    """An `Engine`; see there."""

    def __init__(
        self, catalog: PostgresDatabase, *, heartbeat_seconds: float = _HEARTBEAT_SECONDS
    ) -> None:
        self._catalog, self._heartbeat_seconds = catalog, heartbeat_seconds
        self._database = catalog.beside(queue_tables(), "queue")
        self._notifications = Notifications(self._database)

    def submit(self, key: str, ids: Sequence[str]) -> None:
        from procrastinate.jobs import Job
        from procrastinate.manager import JobManager

        jobs = [
            Job(
                id=None,
                queue=key,
                lock=None,
                queueing_lock=None,
                task_name=_TASK,
                task_kwargs={"batch": batch},
            )
            for batch in ids
        ]
        JobManager(connector(self._database, self._notifications)).batch_defer_jobs(jobs)

    def look_after(self, key: str) -> int:
        values = {"queue": key, "stalled": _STALLED_HEARTBEATS * self._heartbeat_seconds}
        with self._database.writing() as sql:
            if sql.run(_REDELIVER, **values):
                sql.run(_NOTIFY, queue=key)
            return int(sql.run(_LIVE, **values)[0][0])

    def workers(self, keys: Collection[str]) -> list[WorkerInfo]:
        values = {"queues": list(keys), "stalled": _STALLED_HEARTBEATS * self._heartbeat_seconds}
        with self._database.reading() as sql:
            rows = sql.run(_WORKERS, **values) if keys else []
        return [
            WorkerInfo(str(name), "texts", key, slots, busy, float(silent))
            for name, key, slots, busy, silent in rows
        ]

    async def serve(
        self,
        work: Callable[[str, str], Awaitable[object]],
        slots: Mapping[str, int],
        *,
        once: bool = False,
    ) -> None:
        await call(refuse_pooler, self._catalog)
        # Only in workers: the pool is that of the process, and ingests and searches need more.
        self._database.limit_connections(_CONNECTIONS)
        async with asyncio.TaskGroup() as queues:
            for key, count in slots.items():
                queues.create_task(self._serve_queue(work, key, count, once=once))

    async def _serve_queue(
        self, work: Callable[[str, str], Awaitable[object]], key: str, slots: int, *, once: bool
    ) -> None:
        from procrastinate import App

        app = App(connector=connector(self._database, self._notifications))
        app.job_manager = registering(app.connector, key, slots)

        @app.task(name=_TASK)
        async def embed(batch: str) -> None:
            await work(key, batch)

        while True:
            try:
                await app.run_worker_async(
                    queues=[key],
                    concurrency=slots,
                    wait=not once,
                    fetch_job_polling_interval=_POLL_SECONDS,
                    # The rows of batches are the truth; a job that is done tells nothing more.
                    delete_jobs="always",
                    # The command `worker` handles signals, for all queues and for ingests.
                    install_signal_handlers=False,
                    update_heartbeat_interval=self._heartbeat_seconds,
                    stalled_worker_timeout=_KEPT_HEARTBEATS * self._heartbeat_seconds,
                )
                if once:
                    return
            except Exception as error:  # an outage, or its row was removed while it was suspended
                _log.warning("worker: registers again after an error: %s", error)
            await asyncio.sleep(_AGAIN_SECONDS)

    def close(self) -> None:
        self._notifications.close()
        self._database.close()


_SLOTS = """create table if not exists lorebind_slots (
  worker bigint primary key references procrastinate_workers (id) on delete cascade,
  queue varchar not null,
  slots integer not null
)"""
_FILE = re.compile(r"(\d\d)\.(\d\d)\.(\d\d)_(\d\d)_")


def queue_tables() -> Tables:
    """Return the tables; their version is that of the last migration of procrastinate.

    It ships the statements that create the tables, and those that migrate them, and no program
    that knows which ones have run.
    """
    from procrastinate.schema import SchemaManager

    migrations: dict[int, list[str]] = {}
    for file in sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql")):
        if match := _FILE.match(file.name):
            migrations.setdefault(int("".join(match.groups())), []).append(file.read_text("utf-8"))
    return Tables(
        "queue",
        max(migrations),
        [_SLOTS],
        migrations=migrations,
        creation=[SchemaManager.get_schema()],
        move_away="drop its schema, and run the ingest again",
    )
