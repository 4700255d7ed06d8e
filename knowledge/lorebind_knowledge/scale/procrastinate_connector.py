"""Procrastinate over Lorebind's own connections, and workers that say how many slots they have.

The classes derive from those of procrastinate, which is an extra, so functions make them.
"""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lorebind_knowledge.database.databases import PostgresDatabase
    from lorebind_knowledge.database.postgres_notifications import Notifications


def connector(database: PostgresDatabase, notifications: Notifications) -> Any:
    """Return the connector of procrastinate for its tables in a database."""
    return _connector_class()(database, notifications)


def registering(connected: Any, queue: str, slots: int) -> Any:
    """Return procrastinate's manager of jobs for workers with slots in a queue."""
    return _manager_class()(connected, queue, slots)


@cache
def _connector_class() -> Any:
    from procrastinate.connector import BaseAsyncConnector

    class Connector(BaseAsyncConnector):
        """Runs each statement in a transaction; errors are Lorebind's `StoreError`."""

        def __init__(self, database: PostgresDatabase, notifications: Notifications) -> None:
            self._database, self._notifications = database, notifications

        def get_sync_connector(self) -> Any:
            return self

        async def open_async(self, pool: Any = None) -> None:
            """Do nothing: the database opens connections when they are needed."""

        async def close_async(self) -> None:
            """Do nothing: the engine closes the database."""

        def execute_query_all(self, query: str, **arguments: Any) -> list[dict[str, Any]]:
            from psycopg.rows import dict_row

            values = {name: _wrapped(value) for name, value in arguments.items()}
            with self._database.writing() as sql, sql.driver.cursor(row_factory=dict_row) as cursor:
                sql.commit_without_waiting()  # a job that a crash forgets is submitted again
                cursor.execute(query, values)
                rows: list[dict[str, Any]] = cursor.fetchall() if cursor.description else []
                return rows

        def execute_query_one(self, query: str, **arguments: Any) -> dict[str, Any]:
            return self.execute_query_all(query, **arguments)[0]

        def execute_query(self, query: str, **arguments: Any) -> None:
            self.execute_query_all(query, **arguments)

        async def execute_query_all_async(
            self, query: str, **arguments: Any
        ) -> list[dict[str, Any]]:
            return await call(self.execute_query_all, query, **arguments)

        async def execute_query_one_async(self, query: str, **arguments: Any) -> dict[str, Any]:
            return await call(self.execute_query_one, query, **arguments)

        async def execute_query_async(self, query: str, **arguments: Any) -> None:
            await call(self.execute_query, query, **arguments)

        async def listen_notify(self, on_notification: Any, channels: Iterable[str]) -> None:
            """Pass notifications on until the task is cancelled."""
            loop, channels = asyncio.get_running_loop(), list(channels)

            def listen(channel: str) -> None:
                def on_payload(payload: str) -> None:
                    arrived = on_notification(channel=channel, payload=payload)
                    asyncio.run_coroutine_threadsafe(arrived, loop)

                self._notifications.listen(channel, on_payload)

            try:
                for channel in channels:
                    listen(channel)
                await asyncio.Event().wait()
            finally:
                for channel in channels:
                    self._notifications.stop(channel)

    return Connector


@cache
def _manager_class() -> Any:
    from procrastinate.manager import JobManager

    class Manager(JobManager):
        """Registers each worker with its queue and the number of its slots."""

        def __init__(self, connected: Any, queue: str, slots: int) -> None:
            super().__init__(connected)
            self._queue, self._slots = queue, slots

        async def register_worker(self) -> int:
            row = await self.connector.execute_query_one_async(
                "with registered as (insert into procrastinate_workers default values returning id)"
                " insert into lorebind_slots (worker, queue, slots)"
                " select id, %(queue)s, %(slots)s from registered returning worker",
                queue=self._queue,
                slots=self._slots,
            )
            return int(row["worker"])

    return Manager


def _wrapped(value: Any) -> Any:
    """Return a value with each mapping as PostgreSQL's JSON."""
    from psycopg.types.json import Jsonb

    if isinstance(value, dict):
        return Jsonb(value)
    if isinstance(value, list | tuple):
        return (
            type(value)(map(_wrapped, value))
            if type(value) is list
            else tuple(map(_wrapped, value))
        )
    return value
