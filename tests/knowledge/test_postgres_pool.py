"""The pool of connections that all users of one PostgreSQL database share."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest

from lorebind import Project
from lorebind_config.errors import StoreError
from lorebind_knowledge.database.postgres_address import PostgresAddress
from lorebind_knowledge.database.postgres_connections import Connections
from lorebind_knowledge.database.postgres_pool import DEFAULT_SIZE, Limits

SEARCHES = 24


@pytest.fixture
def use(dsn: str) -> Iterator[Callable[..., Connections]]:
    with ExitStack() as opened:

        def make(extra: str = "", **settings: Any) -> Connections:
            user = Connections(PostgresAddress(dsn + extra), "test", **settings)
            return opened.enter_context(closing(user))

        yield make


def session(db: psycopg.Connection) -> int:
    row = db.execute("select pg_backend_pid()").fetchone()
    assert row is not None
    return int(row[0])


def test_users_of_one_address_share_connections(use: Callable[..., Connections]) -> None:
    """An idle connection serves all users of the same DSN, and no user of another one."""
    first, second, other = use(), use(own_schema="elsewhere"), use("%20-clock_timeout%3D5s")
    with first.reading() as db:
        before = session(db)
    with second.writing() as db:
        assert session(db) == before
    with other.reading() as db:
        assert session(db) != before


def test_the_last_user_closes_the_connections(use: Callable[..., Connections]) -> None:
    """A user that leaves takes no connection from others, and may return."""
    first, second = use(), use()
    with first.reading() as db:
        pass
    with second.reading() as again:
        assert again is db
    second.leave()
    assert not db.closed
    first.close()
    assert db.closed
    with second.reading() as new:
        assert not new.closed
    second.leave()
    assert new.closed
    with pytest.raises(StoreError, match="closed"), first.reading():
        pass


def test_a_connection_in_use_is_closed_when_it_is_given_back(
    use: Callable[..., Connections],
) -> None:
    user = use()
    with user.reading() as db:
        user.leave()
        assert not db.closed
    assert db.closed


@pytest.mark.parametrize(
    ("sizes", "size"),
    [([None], DEFAULT_SIZE), ([None, 2], 2), ([None, 2, 3], 3)],
    ids=["default", "one", "largest"],
)
def test_the_largest_size_applies(
    use: Callable[..., Connections], sizes: list[int | None], size: int
) -> None:
    """Users that name no size accept the size of the others."""
    users = [use(limits=Limits(max_size=each)) for each in sizes]
    capped = use()
    capped.limit(1)
    assert capped._entered().size == 1  # as in a worker, whatever others ask for
    capped.leave()
    assert {user._entered().size for user in users[-1:]} == {size}
    full = threading.Barrier(size + 1)
    impatient = use(timeout_seconds=0.05)

    def hold(at: int) -> None:
        with users[at % len(users)].reading():
            full.wait(60)
            full.wait(60)

    with ThreadPoolExecutor(size) as threads:
        holders = [threads.submit(hold, at) for at in range(size)]
        full.wait(60)
        with pytest.raises(StoreError, match=f"all {size} connections"), impatient.reading():
            pass
        full.wait(60)
    for holder in holders:
        holder.result()
    with impatient.reading():
        pass


def test_a_caller_that_has_a_connection_waits_for_no_other(
    use: Callable[..., Connections],
) -> None:
    """Two callers that each wait for the connection of the other would wait forever."""
    first, second = use(limits=Limits(max_size=1), timeout_seconds=0.05), use(own_schema="x")
    with first.reading() as db, second.reading() as other_db, first.writing() as third_db:
        assert len({session(each) for each in (db, other_db, third_db)}) == 3


def test_a_joined_transaction_leaves_no_trace(use: Callable[..., Connections]) -> None:
    """Settings and errors in it do not reach the transaction that it has joined."""
    outer, inner, elsewhere = use(), use(), use(own_schema="elsewhere")
    with outer.reading() as db:
        with inner.joining() as joined:
            assert session(joined) == session(db)
            joined.execute("set local enable_sort = off")
        assert db.execute("show enable_sort").fetchone() == ("on",)
        with pytest.raises(StoreError, match="no_table"), inner.joining() as joined:
            joined.execute("select * from no_table")
        assert session(db) == session(joined)
        with elsewhere.joining() as apart:  # whose tables have the same names
            assert session(apart) != session(db)
    with inner.joining() as alone:
        assert alone.execute("show transaction_read_only").fetchone() == ("on",)


def test_a_late_call_delays_the_end_of_the_transaction(use: Callable[..., Connections]) -> None:
    """A call whose caller has given up ends before others get the connection."""
    outer, inner = use(), use()
    joined, ended = threading.Event(), threading.Event()

    def late() -> None:
        with inner.joining() as db:
            joined.set()
            db.execute("select pg_sleep(0.3)")
            ended.set()

    with outer.reading():
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=[late])
        thread.start()
        assert joined.wait(60)
    assert ended.is_set()
    thread.join()


def declared(dsn: str, size: int) -> dict[str, Any]:
    def base(name: str, vector_db: str) -> dict[str, Any]:
        documents = [{"id": "hours", "text": f"The {name} opens at nine."}]
        sources = [{"type": "inline", "documents": documents}]
        return {"id": name, "vector_db": vector_db, "sources": sources}

    def database(name: str, **settings: Any) -> dict[str, Any]:
        config = {"dsn": "{{ .env.DSN }}", "table": name, "pool": {"max_size": size}}
        return {"id": name, "type": "pgvector", "config": config | settings}

    return {
        "name": "shop",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [database("one"), database("two", ensure_index=True)],
        "knowledge_bases": [base("store", "one"), base("depot", "two")],
    }


@pytest.mark.parametrize("size", [1, 2])
def test_many_searches_in_a_small_pool(dsn: str, size: int) -> None:
    """Searches of one and of several vector databases never wait for each other's connections."""
    questions: list[Callable[[Project], Any]] = [
        lambda project: project.query("store", "When does it open?"),
        lambda project: project.query("depot", "When?", strategy="similarity"),
        lambda project: project.query_many(["store", "depot"], "When does the depot open?"),
    ]
    with Project.build(declared(dsn, size), environ={"DSN": dsn}) as project:
        for name in ("store", "depot"):
            assert project.ingest(name).status == "completed"
        with ThreadPoolExecutor(SEARCHES) as threads:
            searches = [
                threads.submit(question, project)
                for _ in range(SEARCHES // len(questions))
                for question in questions
            ]
            results = [search.result() for search in searches]
    assert all(result.matches for result in results)
