"""Refusals and outages of PostgreSQL: errors with a suggested fix, and recovery."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import psycopg
import pytest

from lorebind_config.errors import StoreError, UsageError
from lorebind_config.namespace import IndexKey, Namespace
from lorebind_knowledge.database import postgres_pool
from lorebind_knowledge.database.postgres_address import PostgresAddress
from lorebind_knowledge.records import Partition
from lorebind_knowledge.stores.base import StoredVector
from lorebind_knowledge.stores.pgvector import store as store_module
from lorebind_knowledge.stores.pgvector.settings import PgvectorSettings, PoolConfig
from lorebind_knowledge.stores.pgvector.store import PgvectorStore
from tests.postgres import PASSWORD, Server
from tests.torture.cable import Cable

SPACE = Partition(IndexKey(Namespace("acme", "support", "project", "handbook")), 7, 2)
EAST = np.array([1, 0], np.float32)


@pytest.fixture
def make_store() -> Iterator[Callable[..., PgvectorStore]]:
    stores: list[PgvectorStore] = []

    def make(dsn: str, **settings: Any) -> PgvectorStore:
        stores.append(PgvectorStore(dsn, PgvectorSettings(**settings)))
        return stores[-1]

    yield make
    for store in stores:
        store.close()


def nearest(store: PgvectorStore) -> list[int]:
    return sorted(store.nearest(SPACE, EAST, 100, {}, None).numbers)


def add(store: PgvectorStore, *numbers: int) -> PgvectorStore:
    store.add(SPACE, [StoredVector(number, EAST, "", {}) for number in numbers])
    return store


def message(caught: pytest.ExceptionInfo[StoreError]) -> str:
    """Return the error's text, after checking that it names the store and has no secret."""
    text = str(caught.value)
    assert text.startswith("pgvector store, table 'knowledge_chunks' at 127.0.0.1:")
    assert PASSWORD not in text
    return text


@pytest.mark.enable_socket
def test_a_writer_that_is_cut_off_holds_up_nobody(
    postgres: Server, dsn: str, make_store: Callable[..., PgvectorStore]
) -> None:
    """A writer that is cut off in the middle of a statement does not block others."""
    vector = np.array([0.6, 0.8], np.float32)
    vectors = [StoredVector(2, vector, "", {})]
    cable = Cable(postgres.port)
    with ThreadPoolExecutor() as threads:
        try:
            cut = add(make_store(dsn.replace(f":{postgres.port}/", f":{cable.port}/")), 1)
            cable.lose(vector.astype(">f4").tobytes())
            adding = threads.submit(cut.add, SPACE, vectors)
            assert cable.has_lost.wait(60)
            store = make_store(dsn)
            store.add(SPACE, vectors)
            assert nearest(store) == [1, 2]
        finally:
            cable.close()
        with pytest.raises(StoreError):
            adding.result()


def test_a_server_that_stops_and_comes_back(
    own_postgres: Server, make_store: Callable[..., PgvectorStore]
) -> None:
    """Every call is an error while the server is down; afterwards the same store works."""
    store = add(make_store(own_postgres.dsn()), 1)
    own_postgres.stop()
    for call in (
        lambda: nearest(store),
        lambda: add(store, 2),
        lambda: store.get(SPACE, [1]),
        lambda: store.delete(SPACE, [1]),
        lambda: store.count(SPACE),
        lambda: store.drop(SPACE),
        lambda: add(make_store(own_postgres.dsn()), 2),
    ):
        with pytest.raises(StoreError) as caught:
            call()
        assert "server" in message(caught)
    own_postgres.start()
    assert nearest(store) == [1]


def test_a_server_that_stops_in_the_middle(
    own_postgres: Server, make_store: Callable[..., PgvectorStore]
) -> None:
    """A statement that is cut off is an error, and changes nothing."""
    store = add(make_store(own_postgres.dsn()), 1)
    raised: list[BaseException] = []

    def write() -> None:
        try:
            add(store, *range(2, 5000))
        except StoreError as error:
            raised.append(error)

    with own_postgres.connect() as db, db.transaction():
        db.execute("lock table knowledge_chunks_vectors in share mode")
        thread = threading.Thread(target=write)
        thread.start()
        waiting = "select 1 from pg_locks where not granted"
        deadline = time.monotonic() + 60
        while not db.execute(waiting).fetchone():
            assert time.monotonic() < deadline
        own_postgres.stop()
        thread.join(60)
        db.close()
    assert "server" in str(raised[0])
    own_postgres.start()
    assert nearest(store) == [1]
    assert nearest(add(store, 2)) == [1, 2]


def test_connections_that_the_server_ends(
    postgres: Server,
    dsn: str,
    make_store: Callable[..., PgvectorStore],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At most one call fails, however many connections were lost."""
    monkeypatch.setattr(postgres_pool, "_TRUSTED_SECONDS", 60)
    store = add(make_store(dsn), 1)
    threads = [threading.Thread(target=nearest, args=(store,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    postgres.end_sessions()
    with pytest.raises(StoreError) as caught:
        nearest(store)
    assert "try again" in message(caught)
    assert nearest(store) == [1]


def test_an_idle_connection_is_tried_first(
    postgres: Server,
    dsn: str,
    make_store: Callable[..., PgvectorStore],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A connection that was lost while idle is replaced without an error."""
    monkeypatch.setattr(postgres_pool, "_TRUSTED_SECONDS", 0)
    store = add(make_store(dsn), 1)
    postgres.end_sessions()
    assert nearest(store) == [1]


def test_an_idle_connection_to_a_server_that_hangs(
    own_postgres: Server, make_store: Callable[..., PgvectorStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that accepts statements and never answers is an outage, and then works again."""
    with own_postgres.connect() as db:
        db.execute("create extension vector")
    monkeypatch.setattr(postgres_pool, "_TRUSTED_SECONDS", -1)
    monkeypatch.setattr(postgres_pool, "_CHECK_SECONDS", 0.2)
    store = add(make_store(f"{own_postgres.dsn()}?connect_timeout=2"), 1)
    with own_postgres.frozen(), pytest.raises(StoreError) as caught:
        nearest(store)
    assert message(caught).endswith("check that the server is up and that this is its address")
    assert nearest(store) == [1]


def test_connections_in_use(dsn: str, make_store: Callable[..., PgvectorStore]) -> None:
    """The error of a caller that waits too long for a connection names the setting to raise."""
    store = add(make_store(dsn, pool=PoolConfig(max_size=1, timeout_seconds=0.05)), 1)
    with ThreadPoolExecutor() as threads, store._db.reading(), pytest.raises(StoreError) as caught:
        threads.submit(nearest, store).result()
    assert "all 1 connections" in message(caught)
    assert "pool.max_size" in message(caught)
    assert nearest(store) == [1]


def test_a_lock_that_is_held(
    dsn: str, make_store: Callable[..., PgvectorStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer does not wait forever for another transaction."""
    monkeypatch.setattr(store_module, "_LOCK_SECONDS", 0.05)
    store = add(make_store(dsn), 1)
    with psycopg.connect(dsn) as db:
        db.execute("lock table knowledge_chunks_vectors in share mode")
        with pytest.raises(StoreError) as caught:
            add(store, 2)
    assert "wait for it to end, then try again" in message(caught)
    assert nearest(add(store, 2)) == [1, 2]


def test_idle_connections_are_closed(
    postgres: Server,
    dsn: str,
    make_store: Callable[..., PgvectorStore],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`min_size` idle connections stay open, and none after `close`."""

    def count() -> int:
        with postgres.connect() as db:
            query = "select count(*) from pg_stat_activity where application_name = 'lorebind'"
            row = db.execute(query).fetchone()
            assert row is not None
            return int(row[0])

    store = make_store(dsn, pool=PoolConfig(min_size=2, max_size=4))
    pool = store._db._entered()
    held = [store._db.reading() for _ in range(4)]
    for connection in held:
        connection.__enter__()
    for connection in held:
        connection.__exit__(None, None, None)
    assert len(pool._idle) == 4
    monkeypatch.setattr(postgres_pool, "_KEPT_SECONDS", 0)
    with store._db.reading():
        pass
    assert len(pool._idle) == 2
    store.close()
    assert pool._idle == []
    deadline = time.monotonic() + 60
    while count():
        assert time.monotonic() < deadline


@pytest.mark.parametrize(
    ("dsn", "says"),
    [
        ({"password": "wrong-secret"}, "check user and password"),
        ({"database": "nowhere"}, r'"nowhere" does not exist; create it'),
    ],
    ids=["password", "database"],
)
def test_a_dsn_that_is_refused(
    postgres: Server, make_store: Callable[..., PgvectorStore], dsn: dict[str, str], says: str
) -> None:
    """A wrong DSN is an error immediately, without the password."""
    with pytest.raises(StoreError, match=says) as caught:
        nearest(make_store(postgres.dsn(**dsn)))
    assert "wrong-secret" not in str(caught.value)


def test_a_port_where_nobody_listens(
    own_postgres: Server, make_store: Callable[..., PgvectorStore]
) -> None:
    """The error for an address that cannot be reached names it."""
    own_postgres.stop()
    with pytest.raises(
        StoreError, match=r"check that the server is up and that this is its address"
    ) as caught:
        nearest(make_store(own_postgres.dsn()))
    assert str(own_postgres.port) in message(caught)


@pytest.mark.parametrize(
    "dsn", ["hunter2", "postgresql://u:hunter2@[::1/x", "host=x password='hunter2", "sqlite:///x"]
)
def test_a_dsn_that_is_none(dsn: str) -> None:
    """An invalid DSN is refused without being repeated."""
    with pytest.raises(UsageError, match=r"expected postgresql://user") as caught:
        PgvectorStore(dsn)
    assert "hunter2" not in str(caught.value)


def test_spellings_of_a_dsn(dsn: str, make_store: Callable[..., PgvectorStore]) -> None:
    """SQLAlchemy's form of a DSN works too, and no text of a store contains the password."""
    store = add(make_store(dsn.replace("postgresql://", "postgresql+psycopg://")), 1)
    assert nearest(store) == [1]
    for text in (str(store), repr(store), repr(store._db._address), str(vars(store._db))):
        assert PASSWORD not in text


def test_a_password_that_is_quoted() -> None:
    """Messages of PostgreSQL or a proxy are shown without the password."""
    address = PostgresAddress("postgresql://u:hunter2@localhost/x")
    assert address.advice(ValueError("no\nhunter2 here")) == "no [secret] here"
    assert "hunter2" not in str(address) + repr(address)


def test_a_database_without_the_extension(
    own_postgres: Server, make_store: Callable[..., PgvectorStore]
) -> None:
    """If a role may not create the extension, the error names who may; then it works."""
    with own_postgres.connect() as db:
        db.execute("create role plain login password 'plain-secret'")
        db.execute("grant create on schema public to plain")
        dsn = own_postgres.dsn().replace(f"postgres:{PASSWORD}", "plain:plain-secret")
        store = make_store(dsn)
        with pytest.raises(StoreError, match=r"an administrator .* run: create extension vector"):
            add(store, 1)
        with pytest.raises(StoreError, match=r"extension vector and table .* missing"):
            add(make_store(dsn, ensure_schema=False), 1)
        db.execute("create extension vector")
        assert nearest(add(store, 1)) == [1]
        db.execute(
            "alter table knowledge_chunks_vectors owner to postgres;"
            " revoke all on knowledge_chunks_vectors from plain"
        )
        with pytest.raises(StoreError, match=r"permission denied .* grant the role"):
            nearest(store)


def test_a_database_of_another_encoding(
    own_postgres: Server, make_store: Callable[..., PgvectorStore]
) -> None:
    """A database that cannot store every text is refused with a suggested fix."""
    with own_postgres.connect() as db:
        db.execute("create database odd encoding 'LATIN1' locale 'C' template template0")
    with pytest.raises(StoreError, match="LATIN1, which cannot store every text; create one with"):
        add(make_store(own_postgres.dsn(database="odd")), 1)
