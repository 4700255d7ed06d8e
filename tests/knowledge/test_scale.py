"""Batches of texts, and the workers that embed them, in one process."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from typing import Any

import psycopg
import pytest

from lorebind_config.errors import StoreError
from lorebind_config.namespace import PROJECT_SCOPE, Namespace
from lorebind_knowledge.catalog.batches import About, Batch, Batches
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.leases import Lease
from lorebind_knowledge.catalog.schema import CATALOG
from lorebind_knowledge.database import postgres_notifications
from lorebind_knowledge.database.databases import PostgresDatabase
from lorebind_knowledge.database.postgres_address import PostgresAddress
from lorebind_knowledge.embedders.base import Embedder, Fingerprint
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.scale.engine import make_engine
from lorebind_knowledge.scale.pool import VERSION
from lorebind_knowledge.scale.work import Work
from lorebind_knowledge.scale.worker import Worker
from tests.postgres import Server

from .every_catalog import in_postgres

pytestmark = pytest.mark.enable_socket

LEASE = Lease(Namespace("default", "shop", PROJECT_SCOPE, "docs"), 1)


class Provider(Embedder):
    """Calls a function before it answers. Its method blocks, as those of local models do."""

    max_concurrent = 64

    def __init__(self, name: str, before: Callable[[], object]) -> None:
        self._name, self._before = name, before

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint("fake", self._name, dimension=2)

    def embed_documents(self, texts: Sequence[str]) -> Any:
        self._before()
        return [[1.0, float(len(text))] for text in texts]

    def embed_query(self, text: str) -> Any:
        return [1.0, float(len(text))]


class TooManyError(Exception):
    """The answer of a provider that limits its callers."""

    status_code = 429
    headers = {"retry-after": "60"}  # noqa: RUF012 - as of a client's exception


def fail(error: Exception) -> None:
    raise error


@pytest.fixture
def catalog(dsn: str) -> Iterator[Catalog]:
    catalog = in_postgres(dsn)
    yield catalog
    catalog.close()


@pytest.fixture
def batches(catalog: Catalog) -> Batches:
    assert catalog.postgres is not None
    return Batches(catalog.postgres)


async def add(batches: Batches, key: str, names: Sequence[str]) -> None:
    """Store batches of one text each, as of an ingest whose lease is not checked."""
    about = About("default", "docs", key, VERSION)
    rows = [Batch(name, key, about, [f"text of {name}"]) for name in names]
    await call(batches.add, LEASE, rows, lambda sql, lease: None)


async def test_blocking_calls_do_not_occupy_the_threads_of_renewals(
    catalog: Catalog, batches: Batches
) -> None:
    """More calls than any other lane has threads run at the same time, and are renewed."""
    count = 40
    together, renewed = threading.Barrier(count + 1), threading.Event()

    def wait() -> None:
        together.wait(60)
        assert renewed.wait(60)

    names = [str(number) for number in range(count)]
    await add(batches, "key", names)
    work = Work(catalog, {"key": Provider("waits", wait)})
    async with asyncio.timeout(60):
        working = asyncio.gather(*map(work, names))
        await asyncio.to_thread(together.wait, 60)  # all have begun
        assert await call(batches.renew, names[0], work.name)
        renewed.set()
        assert all(await working)
    assert await call(batches.collect, names) == dict.fromkeys(names, "")


@pytest.mark.parametrize("error", [TooManyError(), ValueError("broken")], ids=["limited", "broken"])
async def test_a_provider_in_trouble_delays_no_other(
    catalog: Catalog, batches: Batches, error: Exception
) -> None:
    """With one slot for each embedder, the texts of others are embedded; none loses an attempt."""
    assert catalog.postgres is not None
    embedders = {
        "bad": Provider("bad", lambda: fail(error)),
        "good": Provider("good", lambda: None),
    }
    engine: Any = make_engine("distributed", catalog.postgres)
    bad, good = ["b1", "b2", "b3"], ["g1", "g2", "g3"]
    for key, names in (("bad", bad), ("good", good)):
        await add(batches, key, names)
        await call(engine.submit, key, names)
    worker = Worker([(catalog, engine, embedders)], concurrency=1)
    running = asyncio.create_task(worker.run())
    done: dict[str, str] = {}
    async with asyncio.timeout(60):
        while len(done) < (3 if isinstance(error, TooManyError) else 6):
            done |= await call(batches.collect, [*bad, *good])
            await asyncio.sleep(0.02)
        worker.stop()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert [done[name] for name in good] == ["", "", ""]
    if isinstance(error, TooManyError):
        assert done.keys() == set(good)
        taken = await call(batches.take, "b1", "another worker", ["bad"])
        assert taken is not None, "it was given back"
    else:
        assert all("ValueError: broken" in done[name] for name in bad)
    engine.close()


def test_tables_that_the_operator_creates(dsn: str, catalog: Catalog, batches: Batches) -> None:
    """With `ensure_schema: false`, the error has the SQL for the queue, which works."""
    assert catalog.postgres is not None
    batches.collect([])  # creates the tables of the catalog
    database = PostgresDatabase(PostgresAddress(dsn), CATALOG, ensure_schema=False)
    engine: Any = make_engine("distributed", database)
    with pytest.raises(StoreError, match="ensure_schema is false; create them with:") as raised:
        engine.submit("key", ["batch"])
    _, _, script = str(raised.value).partition("create them with:\n")
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute(script)
    engine.submit("key", ["batch"])
    assert engine.look_after("key") == 0
    engine.close()


class Pooler:
    """Stands between PostgreSQL and clients, and gives connections numbers of its own.

    In transaction mode, poolers drop notifications, because a connection belongs to its client only
    during a transaction.
    """

    def __init__(self, port: int, *, drops: bool) -> None:
        self._server, self._drops = port, drops
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server))
                for carry in (self._to_server, self._to_client):
                    threading.Thread(target=carry, args=(client, server), daemon=True).start()

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError), client, server:
            while data := client.recv(65536):
                server.sendall(data)

    def _to_client(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError), client, server, server.makefile("rb") as messages:
            while kind := messages.read(1):
                size = messages.read(4)
                body = messages.read(int.from_bytes(size, "big") - 4)
                if kind == b"K":  # BackendKeyData: the number of the connection, and a secret
                    body = (1).to_bytes(4, "big") + body[4:]
                if not (kind == b"A" and self._drops):  # NotificationResponse
                    client.sendall(kind + size + body)


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_a_pooler(dsn: str, postgres: Server, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """A worker refuses one in transaction mode by name, and works with one in session mode."""
    monkeypatch.setattr(postgres_notifications, "_PROBE_SECONDS", 0.5)
    pooler = Pooler(postgres.port, drops=mode == "transaction")
    address = dsn.replace(f":{postgres.port}/", f":{pooler.port}/")
    catalog = in_postgres(f"{address}&sslmode=disable&gssencmode=disable")
    assert catalog.postgres is not None
    engine: Any = make_engine("distributed", catalog.postgres)
    worker = Worker([(catalog, engine, {"key": Provider("any", lambda: None)})], concurrency=1)
    refused = (
        pytest.raises(StoreError, match="a connection pooler in transaction mode is in between")
        if mode == "transaction"
        else nullcontext()
    )
    with refused:
        asyncio.run(worker.run(once=True))
    engine.close()
    catalog.close()
    pooler.close()
