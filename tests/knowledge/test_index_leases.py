"""An index has one writer at a time, and none whose lease is gone."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lorebind_config.errors import IngestRunningError, LeaseLostError
from lorebind_knowledge.catalog import leases
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.indexes import IndexEntry, Manifest
from lorebind_knowledge.catalog.leases import Lease
from lorebind_knowledge.catalog.ledger import DocumentEntry, Ledger
from lorebind_knowledge.database.databases import Database
from lorebind_knowledge.index.index import Index
from lorebind_knowledge.testing.index_driver import HERE, Driver, record, vector
from lorebind_knowledge.testing.index_recovery import (
    answers,
    begin,
    edit,
    watched_driver,
)

from .every_catalog import OnEveryCatalog
from .plain_stores import PlainStore

MANIFEST = Manifest("tests", "tests-1", 4, "whole")
ROWS = [DocumentEntry("a.md", "s", title="changed")]
WRITES: dict[str, Callable[[Index, Lease, IndexEntry], Any]] = {
    "stage": lambda index, lease, entry: index.stage(lease, entry, [record("z", generation=9)]),
    "publish": lambda index, lease, entry: index.publish(lease, entry, {"a.md": 9}, ROWS, "run"),
    "remove": lambda index, lease, entry: index.remove(lease, entry, ["a.md"]),
    "sweep": lambda index, lease, entry: index.sweep(lease, entry, abandon=True),
    "drop": lambda index, lease, entry: index.drop(lease, entry),
    "restore": lambda index, lease, entry: index.restore(lease, entry, {1: vector([1.0] * 4)}),
    "create_index": lambda index, lease, _: ledger_of(index).create_index(lease, MANIFEST),
    "activate_index": lambda index, lease, entry: ledger_of(index).activate_index(lease, entry.key),
    "retire_index": lambda index, lease, entry: ledger_of(index).retire_index(lease, entry.key),
    "set_manifest": lambda index, lease, entry: ledger_of(index).set_manifest(
        lease, entry.key, MANIFEST
    ),
    "put_documents": lambda index, lease, entry: ledger_of(index).put_documents(
        lease, entry.key, ROWS, "run"
    ),
    "start_run": lambda index, lease, _: ledger_of(index).start_run(lease, "upsert"),
    "finish_run": lambda index, lease, _: ledger_of(index).finish_run(lease, "run", "failed", None),
}


def ledger_of(index: Index) -> Ledger:
    return index.catalog.ledger


def everything(to: Driver) -> Any:
    """Return everything that a writer could change."""
    ledger = to.catalog.ledger
    state = to.index.read(HERE, lambda view: view.state)
    indexes = [ledger.index(HERE, name) for name in ("active", "building")]
    documents = ledger.documents(to.entry().key)
    rows = to.store_count(to.entry())
    return answers(to, HERE), state, indexes, documents, rows, to.catalog.runs.list(HERE, 9)


def stop_renewing(patch: pytest.MonkeyPatch) -> None:
    """Let new leases expire immediately, as if their living process were suspended."""
    patch.setattr(leases, "SECONDS", 0.0)
    patch.setattr(leases, "renewed", lambda *_: nullcontext())


def ends_later(database: Database) -> bool:
    """Check whether the only lease has not expired."""
    with database.reading() as sql:
        return bool(sql.run(f"select 1 from catalog_leases where expires > {sql.now}"))


class TestLeases(OnEveryCatalog):
    @pytest.mark.parametrize("name", WRITES)
    def test_a_lease_that_has_gone(self, to: Driver, name: str) -> None:
        """The holder of a lost lease gets an error and changes nothing of the new holder's work."""
        begin(to, HERE)
        entry, gone = to.entry(), to.lease()
        to.stage(record("z", generation=8))
        to.let_go()
        to.catalog.ledger.start_run(to.lease(), "upsert")
        before = everything(to)
        with pytest.raises(LeaseLostError, match=r"'handbook'.*run it again"):
            WRITES[name](to.index, gone, entry)
        assert everything(to) == before
        edit(to, 9, HERE)
        to.agree()

    def test_a_writer_that_wakes_up(
        self,
        store: PlainStore,
        make_catalog: Callable[[], Catalog],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A writer suspended at any step does no harm if it continues after a whole other run."""
        stop_renewing(monkeypatch)
        to, catalog = Driver(store, make_catalog()), make_catalog()
        undisturbed = replace(HERE, kb="undisturbed")
        begin(to, undisturbed)
        edit(to, 2, undisturbed)
        expected = answers(to, undisturbed)
        to.let_go()
        left = fatal = 0

        def follow(step: str) -> None:
            """Let another writer do its work at one of the steps."""
            nonlocal left
            # A writer in a transaction locks the file, so the next one would wait.
            if step != "before a commit":
                left -= 1
                if left == 0:
                    time.sleep(0.001)
                    edit(to, 3, here)

        while left <= 0:
            fatal += 1
            here = replace(HERE, kb=f"step {fatal}")
            with monkeypatch.context() as patch:
                stopped = watched_driver(store, catalog, follow, patch)
                begin(stopped, here)
                left = fatal
                with suppress(LeaseLostError):
                    edit(stopped, 2, here)
                stopped.let_go()
            assert answers(to, here) == expected
            assert to.index.compare(to.entry(here), deep=True)[:2] == (5, [])
            to.let_go()
        assert fatal > 20

    def test_one_at_a_time(self, make_catalog: Callable[[], Catalog]) -> None:
        """While a lease is held, another one for the same knowledge base is refused."""
        first, second = make_catalog(), make_catalog()
        with first.lease(HERE) as lease:
            with (
                pytest.raises(IngestRunningError, match=r"'handbook'.*wait for it"),
                second.lease(HERE),
            ):
                pass
            with second.lease(replace(HERE, tenant="other")):
                pass
            first.ledger.start_run(lease, "upsert")
        with second.lease(HERE) as after:
            assert after.number > lease.number

    def test_a_long_run_keeps_its_lease(
        self, make_catalog: Callable[[], Catalog], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A lease is renewed while its holder works."""
        monkeypatch.setattr(leases, "_RENEWALS", 300)
        database = make_catalog()._database
        with make_catalog().lease(HERE):
            with database.writing() as sql:  # as after the time of a lease
                sql.run(f"update catalog_leases set expires = {sql.now} - 1")
            deadline = time.monotonic() + 60
            while not ends_later(database):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            with pytest.raises(IngestRunningError), make_catalog().lease(HERE):
                pass

    def test_an_expired_lease(
        self, make_catalog: Callable[[], Catalog], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An expired lease can be taken while its holder's process lives, and is then held."""
        first, second, third = (make_catalog() for _ in range(3))
        with ExitStack() as stack:
            with monkeypatch.context() as patch:
                stop_renewing(patch)
                stopped = stack.enter_context(first.lease(HERE))
            time.sleep(0.001)
            with second.lease(HERE) as lease:
                with pytest.raises(LeaseLostError):
                    first.ledger.start_run(stopped, "upsert")
                stack.close()
                with pytest.raises(IngestRunningError), third.lease(HERE):
                    pass
                second.ledger.start_run(lease, "upsert")
            with third.lease(HERE):
                pass


HOLDER = """
import pathlib, sys
from lorebind_knowledge.catalog import leases
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_config.errors import LeaseLostError
from lorebind_knowledge.testing.index_driver import HERE
leases.SECONDS = float(sys.argv[2])
with Catalog(pathlib.Path(sys.argv[1])).lease(HERE) as lease:
    print("held", flush=True)
    input()
    try:
        Catalog(pathlib.Path(sys.argv[1])).ledger.start_run(lease, "upsert")
    except LeaseLostError as error:
        print(error)
"""


def hold(path: Path, seconds: float) -> subprocess.Popen[str]:
    """Start another process that holds the lease."""
    command = [sys.executable, "-c", HOLDER, str(path), str(seconds)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_a_killed_writer_is_followed_at_once(tmp_path: Path) -> None:
    """The lease of a killed process can be taken before it expires."""
    path = tmp_path / "catalog.db"
    with hold(path, leases.SECONDS) as holder, closing(Driver(PlainStore(), Catalog(path))) as to:
        with pytest.raises(IngestRunningError):
            to.lease()
        holder.kill()
        holder.wait()
        begin(to, HERE)
        edit(to, 2, HERE)
        to.agree()


def test_a_stopped_writer_is_followed_when_its_lease_has_expired(tmp_path: Path) -> None:
    """A suspended writer that continues after its lease was taken changes nothing and fails."""
    path = tmp_path / "catalog.db"
    with hold(path, 1) as holder, closing(Driver(PlainStore(), Catalog(path))) as to:
        holder.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + 30
        while True:
            try:
                begin(to, HERE)
                break
            except IngestRunningError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        holder.send_signal(signal.SIGCONT)
        output, _ = holder.communicate("\n", timeout=30)
        assert "another process took over" in output
        assert to.catalog.runs.list(HERE, 1) == []
        edit(to, 2, HERE)
        to.agree()
