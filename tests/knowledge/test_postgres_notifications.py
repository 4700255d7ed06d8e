"""Notifications of PostgreSQL, which all users of a process receive over one connection."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from lorebind_config.declarations.project import ProjectDeclaration
from lorebind_config.templates import Environment
from lorebind_knowledge.database.databases import PostgresDatabase
from lorebind_knowledge.database.postgres_address import PostgresAddress
from lorebind_knowledge.database.postgres_notifications import Notifications
from lorebind_knowledge.database.tables import Tables
from lorebind_knowledge.stores.make import catalog_database

WAIT = 30


@pytest.fixture
def notifications(dsn: str) -> Iterator[Callable[[], Notifications]]:
    opened: list[Notifications] = []

    def make() -> Notifications:
        address = PostgresAddress(f"{dsn}&application_name=hearing")
        database = PostgresDatabase(address, Tables("test", 1, ()))
        opened.append(Notifications(database))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def test_all_users_share_a_connection(notifications: Callable[[], Notifications], dsn: str) -> None:
    """A function that fails, or a user that leaves, takes no notification from the others."""
    first, second, third = notifications(), notifications(), notifications()
    received: queue.Queue[tuple[str, str]] = queue.Queue()

    def fail(_: str) -> None:
        raise RuntimeError("event loop is closed")

    first.listen("both", fail)
    second.listen("both", lambda payload: received.put(("second", payload)))
    third.listen("own", lambda payload: received.put(("third", payload)))
    with psycopg.connect(dsn, autocommit=True) as db:

        def arrives(channel: str, payload: str) -> tuple[str, str]:
            for _ in range(WAIT * 10):  # until the thread listens
                db.execute("select pg_notify(%s, %s)", [channel, payload])
                try:
                    while (came := received.get(timeout=0.1))[1] != payload:
                        pass
                except queue.Empty:
                    continue
                return came
            raise AssertionError("nothing came")

        def sessions() -> int:
            count = "select count(*) from pg_stat_activity where application_name = 'hearing'"
            row = db.execute(count).fetchone()
            assert row is not None
            return int(row[0])

        assert arrives("both", "1") == ("second", "1")
        assert arrives("own", "2") == ("third", "2")
        assert sessions() == 1
        first.close()
        second.close()
        assert not second.are_received
        assert arrives("own", "3") == ("third", "3")
        third.close()
        while sessions():
            pass
        second.listen("both", lambda payload: received.put(("again", payload)))
        assert arrives("both", "4") == ("again", "4")


@pytest.mark.parametrize(("lease", "idle"), [(None, "10s"), (4, "3s"), (3600, "10s")])
def test_a_suspended_writer_keeps_no_lock_longer_than_a_lease(
    lease: float | None, idle: str, dsn: str, tmp_path: Path
) -> None:
    vector_db = {"id": "pg", "type": "pgvector", "config": {"dsn": "{{ .env.PG_DSN }}"}}
    project = ProjectDeclaration.model_validate({"name": "shop", "vector_dbs": [vector_db]})
    environment = Environment(tmp_path, {"PG_DSN": dsn})
    database = catalog_database(project.vector_dbs[0], environment, lease)
    with database.writing() as sql:
        assert sql.run("show idle_in_transaction_session_timeout") == [(idle,)]
    database.close()
