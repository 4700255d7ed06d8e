"""The catalog in PostgreSQL: its tables, its failures and its lock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
import pytest

from lorebind_config.errors import IngestRefusedError, LeaseLostError, StoreError
from lorebind_config.namespace import IndexKey
from lorebind_knowledge.catalog import leases
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.leases import Lease
from lorebind_knowledge.catalog.ledger import DocumentEntry
from lorebind_knowledge.catalog.schema import CATALOG
from lorebind_knowledge.database.databases import PostgresDatabase
from lorebind_knowledge.database.postgres_address import PostgresAddress
from tests.postgres import PASSWORD, Server
from tests.processes import run_program

from .test_catalog import ELSEWHERE, HERE, create_index, read_everything, start_run
from .test_catalog_leases import stopped


@pytest.fixture
def make_catalog() -> Iterator[Callable[..., Catalog]]:
    catalogs: list[Catalog] = []

    def make(dsn: str, *, ensure_schema: bool = True) -> Catalog:
        database = PostgresDatabase(PostgresAddress(dsn), CATALOG, ensure_schema=ensure_schema)
        catalogs.append(Catalog(postgres=database))
        return catalogs[-1]

    yield make
    for catalog in catalogs:
        catalog.close()


def tables(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as db:
        query = "select tablename from pg_tables where schemaname = current_schema()"
        return [name for (name,) in db.execute(query)]


def test_reading_makes_nothing(dsn: str, make_catalog: Callable[..., Catalog]) -> None:
    """A catalog without tables reads as empty, and creates none."""
    catalog = make_catalog(dsn)
    read_everything(catalog)
    assert tables(dsn) == []
    create_index(catalog)
    assert catalog.ledger.index(HERE, "building") is not None


def test_it_lasts(dsn: str, make_catalog: Callable[..., Catalog]) -> None:
    """Another catalog reads what one has written, and a closed one opens again."""
    first = make_catalog(dsn)
    created = create_index(first)
    first.close()
    assert first.ledger.index(HERE, "building") is not None
    assert make_catalog(dsn).ledger.index(HERE, "building") == created


def test_many_make_the_tables_at_once(dsn: str, make_catalog: Callable[..., Catalog]) -> None:
    """Catalogs whose first writes are concurrent create one set of tables."""
    catalogs = [make_catalog(dsn) for _ in range(6)]
    for catalog in catalogs:
        read_everything(catalog)

    def write(catalog: Catalog, kb: str) -> None:
        with catalog.lease(replace(HERE, kb=kb)) as lease:
            catalog.ledger.start_run(lease, "upsert")

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(write, catalogs, "abcdef"))
    assert all(len(catalogs[0].runs.list(replace(HERE, kb=kb), 9)) == 1 for kb in "abcdef")


def test_without_leave_to_make_tables(dsn: str, make_catalog: Callable[..., Catalog]) -> None:
    """With `ensure_schema: false`, nothing is created, and the error shows the SQL."""
    catalog = make_catalog(dsn, ensure_schema=False)
    with pytest.raises(StoreError, match="ensure_schema is false") as caught:
        start_run(catalog)
    assert tables(dsn) == []
    with psycopg.connect(dsn) as db:
        db.execute(str(caught.value).partition(":\n")[2])
    start_run(catalog)
    assert len(catalog.runs.list(HERE, 9)) == 1


def test_a_newer_schema_is_refused(dsn: str, make_catalog: Callable[..., Catalog]) -> None:
    """Tables of a newer version are not changed, and the error suggests an upgrade."""
    start_run(make_catalog(dsn))
    with psycopg.connect(dsn) as db:
        db.execute("update catalog_schema set version = 99")
    with pytest.raises(StoreError, match=r"newer Lorebind .schema 99.*pip install -U lorebind"):
        make_catalog(dsn).ledger.index(HERE, "active")
    with pytest.raises(StoreError, match="newer Lorebind"):
        start_run(make_catalog(dsn))


def test_any_text_is_kept(dsn: str, make_catalog: Callable[..., Catalog]) -> None:
    """Titles and reasons are returned unchanged, with NUL and the characters that stand for it."""
    catalog = make_catalog(dsn)
    ledger = catalog.ledger
    entry = DocumentEntry("a\0.md", "s\x01", "T\0\x01\x02itle", reason="\0")
    with catalog.lease(HERE) as lease:
        ledger.put_documents(lease, IndexKey(HERE), [entry], "run")
    (stored,) = ledger.documents(IndexKey(HERE)).values()
    assert (stored.uri, stored.source, stored.title, stored.reason) == (
        "a\0.md",
        "s\x01",
        "T\0\x01\x02itle",
        "\0",
    )


def test_documents_are_in_order(dsn: str, make_catalog: Callable[..., Catalog]) -> None:
    """Documents are sorted by code points, as in SQLite, whatever the database's language."""
    catalog = make_catalog(dsn)
    ledger = catalog.ledger
    entries = [DocumentEntry(uri, "s") for uri in ("b", "B", "ä", "a/b", "a-b", "a")]
    with catalog.lease(HERE) as lease:
        ledger.put_documents(lease, IndexKey(HERE), entries, "run")
    uris = list(ledger.documents(IndexKey(HERE)))
    assert uris == sorted(uris)


def test_a_server_that_stops_and_comes_back(
    own_postgres: Server, make_catalog: Callable[..., Catalog]
) -> None:
    """An outage is an error that names the database; the same catalog works afterwards."""
    catalog = make_catalog(own_postgres.dsn())
    start_run(catalog)
    own_postgres.stop()
    for call in (
        lambda: catalog.runs.list(HERE, 1),
        lambda: catalog.ledger.start_run(Lease(HERE, 1), "upsert"),
        lambda: catalog.lease(HERE).__enter__(),
    ):
        with pytest.raises(StoreError, match=r"catalog in PostgreSQL at 127.0.0.1") as caught:
            call()
        assert PASSWORD not in str(caught.value)
    own_postgres.start()
    assert len(catalog.runs.list(HERE, 9)) == 1
    with catalog.lease(HERE):
        pass


HOLDER = """
import sys, time
from lorebind_knowledge.catalog import leases
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.database.postgres_address import PostgresAddress
from lorebind_knowledge.catalog.schema import CATALOG
from lorebind_knowledge.database.databases import PostgresDatabase
from lorebind_config.namespace import Namespace
catalog = Catalog(postgres=PostgresDatabase(PostgresAddress(sys.argv[1]), CATALOG))
with catalog.lease(Namespace("acme", "support", "project", "docs")):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_lock_of_another_process(
    new_dsn: Callable[[], str], make_catalog: Callable[..., Catalog]
) -> None:
    """Another process holds the lock until it is killed; another schema has its own locks."""
    dsn = new_dsn()
    catalog = make_catalog(dsn)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, dsn], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(IngestRefusedError, match="'docs' is under way"),
            catalog.lease(HERE),
        ):
            pass
        with catalog.lease(ELSEWHERE):
            pass
        with make_catalog(new_dsn()).lease(HERE):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait(10)
    # The server notices it when it next checks the connection.
    deadline = time.monotonic() + 60
    while True:
        try:
            with catalog.lease(HERE):
                return
        except IngestRefusedError:
            assert time.monotonic() < deadline


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_after_a_fork(dsn: str) -> None:
    """After a fork, parent and child both work, each with its own connections."""
    script = """
import os, sys
from lorebind_knowledge.catalog import leases
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.database.postgres_address import PostgresAddress
from lorebind_knowledge.catalog.schema import CATALOG
from lorebind_knowledge.database.databases import PostgresDatabase
from lorebind_config.namespace import Namespace
parent, child = (Namespace("t", "p", "project", name) for name in ("parent", "child"))

def start_run(namespace):
    with catalog.lease(namespace) as lease:
        catalog.ledger.start_run(lease, "upsert")

catalog = Catalog(postgres=PostgresDatabase(PostgresAddress(sys.argv[1]), CATALOG))
start_run(parent)
for _ in range(3):
    process = os.fork()
    if process == 0:
        start_run(child)
        catalog.close()
        os._exit(0)
    start_run(parent)
    assert os.waitpid(process, 0)[1] == 0
    start_run(parent)
print(*(len(catalog.runs.list(namespace, 99)) for namespace in (parent, child)))
catalog.close()
"""
    command = [sys.executable, "-W", "error", "-c", script, dsn]
    done = run_program(command)
    assert (done.stdout, done.stderr) == ("7 3\n", "")


def test_the_transactions_of_a_writer(dsn: str, make_catalog: Callable[..., Catalog]) -> None:
    """One writer's transactions overlap, and another process that wants to write is refused."""
    catalog, other = make_catalog(dsn), make_catalog(dsn)
    with catalog.lease(HERE) as lease, ThreadPoolExecutor() as threads, catalog.writing(lease):
        threads.submit(catalog.ledger.start_run, lease, "upsert").result(timeout=30)
        with pytest.raises(IngestRefusedError), other.lease(HERE):
            pass


def test_a_new_writer_waits_for_transactions(
    dsn: str, make_catalog: Callable[..., Catalog]
) -> None:
    """A process that takes over waits for transactions of the former writer, and ends its right."""
    catalog, other = make_catalog(dsn), make_catalog(dsn)
    start_run(catalog)
    with ThreadPoolExecutor() as threads, stopped(catalog) as old:
        with catalog.writing(old) as sql:
            taken = threads.submit(leases.take, other._database, HERE, alone=False)
            with pytest.raises(TimeoutError):
                taken.result(timeout=0.5)
            sql.run("delete from catalog_runs")
        new = taken.result(timeout=30)
        assert new is not None
        assert new.number == old.number + 1
        with pytest.raises(LeaseLostError), catalog.writing(old):
            pass
        assert other.runs.list(HERE) == []
