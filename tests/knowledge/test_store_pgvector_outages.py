"""What PostgreSQL refuses, and outages: an error that says what to do, and recovery."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from lorebind_knowledge.catalog.postgres import PostgresAddress
from lorebind_knowledge.declarations.vector_dbs import PoolConfig
from lorebind_knowledge.errors import StoreError, UsageError
from lorebind_knowledge.records import SearchOptions
from lorebind_knowledge.stores.pgvector import connections as pgvector_connections
from lorebind_knowledge.stores.pgvector.store import PgvectorStore
from lorebind_knowledge.testing.store_driver import EAST, INDEX, ids, record, vector
from tests.postgres import PASSWORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.postgres import Server


@pytest.fixture
def make_store() -> Iterator[Callable[..., PgvectorStore]]:
    made: list[PgvectorStore] = []

    def make(dsn: str, **settings: Any) -> PgvectorStore:
        made.append(PgvectorStore(dsn, **settings))
        return made[-1]

    yield make
    for store in made:
        store.close()


def found(store: PgvectorStore) -> list[str]:
    return ids(store.similarity_search(vector(EAST), SearchOptions(INDEX)))


def fill(store: PgvectorStore) -> PgvectorStore:
    store.open(INDEX, 4)
    store.upsert([record("a")])
    store.publish(INDEX, "a.md", 1)
    return store


def message(caught: pytest.ExceptionInfo[StoreError]) -> str:
    """The error's text, which names the store and holds no secret."""
    text = str(caught.value)
    assert text.startswith("pgvector store, table 'knowledge_chunks' at 127.0.0.1:")
    assert PASSWORD not in text
    return text


def test_a_server_that_stops_and_comes_back(
    own_postgres: Server, make_store: Callable[..., PgvectorStore]
) -> None:
    """While the server is down every call is an error; when it is up the same store goes on."""
    store = fill(make_store(own_postgres.dsn()))
    own_postgres.stop()
    for call in (
        lambda: found(store),
        lambda: store.upsert([record("b")]),
        lambda: store.publish(INDEX, "a.md", 1),
        lambda: store.count(INDEX),
        lambda: store.open(INDEX, 4),
        lambda: make_store(own_postgres.dsn()).open(INDEX, 4),
    ):
        with pytest.raises(StoreError) as caught:
            call()
        assert "server" in message(caught)
    own_postgres.start()
    assert found(store) == ["a"]


def test_a_server_that_stops_in_the_middle(
    own_postgres: Server, make_store: Callable[..., PgvectorStore]
) -> None:
    """A statement that is cut off is an error, and leaves nothing half done."""
    store = fill(make_store(own_postgres.dsn()))
    store.upsert([record("b", generation=2)])
    raised: list[BaseException] = []

    def publish() -> None:
        try:
            store.publish(INDEX, "a.md", 2)
        except StoreError as error:
            raised.append(error)

    with own_postgres.connect() as db, db.transaction():
        db.execute("lock table knowledge_chunks")
        thread = threading.Thread(target=publish)
        thread.start()
        waiting = "select 1 from pg_locks where not granted"
        deadline = time.monotonic() + 60
        while not db.execute(waiting).fetchone():
            assert time.monotonic() < deadline
        own_postgres.stop()
        thread.join(10)
        db.close()
    assert "server" in str(raised[0])
    own_postgres.start()
    assert found(store) == ["a"]
    store.publish(INDEX, "a.md", 2)
    assert found(store) == ["b"]


def test_connections_that_the_server_ends(
    postgres: Server, dsn: str, make_store: Callable[..., PgvectorStore]
) -> None:
    """Whatever number of connections was lost, one call fails at the most."""
    store = fill(make_store(dsn))
    threads = [threading.Thread(target=found, args=(store,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with postgres.connect() as db:
        db.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where application_name = 'lorebind'"
        )
    with pytest.raises(StoreError) as caught:
        found(store)
    assert "try again" in message(caught)
    assert found(store) == ["a"]


def test_an_idle_connection_is_tried_first(
    postgres: Server,
    dsn: str,
    make_store: Callable[..., PgvectorStore],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that was lost while it lay idle is replaced, and nobody notices."""
    monkeypatch.setattr(pgvector_connections, "_TRUSTED_SECONDS", 0)
    store = fill(make_store(dsn))
    with postgres.connect() as db:
        db.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where application_name = 'lorebind'"
        )
    assert found(store) == ["a"]


def test_connections_in_use(dsn: str, make_store: Callable[..., PgvectorStore]) -> None:
    """Who waits too long for a connection is told which setting to raise."""
    store = fill(make_store(dsn, pool=PoolConfig(max_size=1, timeout_seconds=0.05)))
    with store._db.reading(), pytest.raises(StoreError) as caught:
        found(store)
    assert "all 1 connections" in message(caught)
    assert "pool.max_size" in message(caught)
    assert found(store) == ["a"]


def test_a_lock_that_is_held(
    dsn: str, make_store: Callable[..., PgvectorStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer does not wait for ever for somebody else's transaction."""
    monkeypatch.setattr(pgvector_connections, "_LOCK_SECONDS", 0.05)
    store = fill(make_store(dsn))
    with psycopg.connect(dsn) as db:
        db.execute("lock table knowledge_chunks_indexes")
        with pytest.raises(StoreError) as caught:
            store.publish(INDEX, "a.md", 1)
    assert "let it end, then try again" in message(caught)
    store.publish(INDEX, "a.md", 1)


def test_idle_connections_are_closed(
    postgres: Server,
    dsn: str,
    make_store: Callable[..., PgvectorStore],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`min_size` connections stay when there is little to do, and none after closing."""

    def count() -> int:
        with postgres.connect() as db:
            query = "select count(*) from pg_stat_activity where application_name = 'lorebind'"
            row = db.execute(query).fetchone()
            assert row is not None
            return int(row[0])

    store = make_store(dsn, pool=PoolConfig(min_size=2, max_size=4))
    held = [store._db.reading() for _ in range(4)]
    for one in held:
        one.__enter__()
    for one in held:
        one.__exit__(None, None, None)
    assert len(store._db._idle) == 4
    monkeypatch.setattr(pgvector_connections, "_KEPT_SECONDS", 0)
    with store._db.reading():
        pass
    assert len(store._db._idle) == 2
    store.close()
    assert store._db._idle == []
    deadline = time.monotonic() + 60
    while count():
        assert time.monotonic() < deadline


@pytest.mark.parametrize(
    ("dsn", "says"),
    [
        ({"password": "wrong-secret"}, "check user and password"),
        ({"database": "nowhere"}, r'"nowhere" does not exist; make it'),
    ],
    ids=["password", "database"],
)
def test_a_dsn_that_is_refused(
    postgres: Server, make_store: Callable[..., PgvectorStore], dsn: dict[str, str], says: str
) -> None:
    """What is wrong with the DSN is said at once, without the password."""
    with pytest.raises(StoreError, match=says) as caught:
        make_store(postgres.dsn(**dsn)).open(INDEX, 4)
    assert "wrong-secret" not in str(caught.value)


def test_a_port_where_nobody_listens(
    own_postgres: Server, make_store: Callable[..., PgvectorStore]
) -> None:
    """An address that cannot be reached is named."""
    own_postgres.stop()
    with pytest.raises(StoreError, match=r"is the server up, and is this its address\?") as caught:
        make_store(own_postgres.dsn()).open(INDEX, 4)
    assert str(own_postgres.port) in message(caught)


@pytest.mark.parametrize(
    "dsn", ["hunter2", "postgresql://u:hunter2@[::1/x", "host=x password='hunter2", "sqlite:///x"]
)
def test_a_dsn_that_is_none(dsn: str) -> None:
    """What cannot be read as a DSN is refused without being repeated."""
    with pytest.raises(UsageError, match=r"expected postgresql://user") as caught:
        PgvectorStore(dsn)
    assert "hunter2" not in str(caught.value)


def test_spellings_of_a_dsn(dsn: str, make_store: Callable[..., PgvectorStore]) -> None:
    """SQLAlchemy's spelling works too, and no text of a store holds the password."""
    store = fill(make_store(dsn.replace("postgresql://", "postgresql+psycopg://")))
    assert found(store) == ["a"]
    for text in (str(store), repr(store), repr(store._db._address), str(vars(store._db))):
        assert PASSWORD not in text


def test_a_password_that_is_quoted() -> None:
    """What PostgreSQL or a proxy says is shown without the password in it."""
    address = PostgresAddress("postgresql://u:hunter2@localhost/x")
    assert address.advice(ValueError("no\nhunter2 here")) == "no [secret] here"
    assert "hunter2" not in str(address) + repr(address)


def test_a_database_without_the_extension(
    own_postgres: Server, make_store: Callable[..., PgvectorStore]
) -> None:
    """A role that may not make the extension is told who may; then everything goes on."""
    with own_postgres.connect() as db:
        db.execute("create role plain login password 'plain-secret'")
        db.execute("grant create on schema public to plain")
        dsn = own_postgres.dsn().replace(f"postgres:{PASSWORD}", "plain:plain-secret")
        store = make_store(dsn)
        with pytest.raises(StoreError, match=r"an administrator .* run: create extension vector"):
            store.open(INDEX, 4)
        with pytest.raises(StoreError, match="extension vector and table knowledge_chunks missing"):
            make_store(dsn, ensure_schema=False).open(INDEX, 4)
        db.execute("create extension vector")
        assert found(fill(store)) == ["a"]
        db.execute(
            "alter table knowledge_chunks_rows owner to postgres;"
            " revoke all on knowledge_chunks_rows from plain"
        )
        with pytest.raises(StoreError, match=r"permission denied .* grant the role"):
            found(store)


def test_a_database_of_another_encoding(
    own_postgres: Server, make_store: Callable[..., PgvectorStore]
) -> None:
    """A database that cannot hold every text is refused with the way out."""
    with own_postgres.connect() as db:
        db.execute("create database odd encoding 'LATIN1' locale 'C' template template0")
    with pytest.raises(StoreError, match="LATIN1, which cannot hold every text; make one with"):
        make_store(own_postgres.dsn(database="odd")).open(INDEX, 4)
