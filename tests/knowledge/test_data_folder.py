"""A project's database file: how it is opened if it cannot be written."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lorebind_config.errors import ReadOnlyError, StoreError
from lorebind_config.namespace import Namespace
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.leases import Lease
from lorebind_knowledge.database.sqlite_file import connect, file_identity, unchanged

HERE = Namespace("acme", "support", "project", "docs")


def start_run(file: Path) -> None:
    """Make a catalog with one run in a file, without other files next to it."""
    with closing(Catalog(file)) as catalog:
        with catalog.lease(HERE) as lease:
            catalog.ledger.start_run(lease, "upsert")
        assert len(catalog.runs.list(HERE, 9)) == 1
    (lock,) = file.parent.glob("*.lock")
    lock.unlink()
    assert names(file.parent) == [file.name]


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A catalog with one run, which nothing has open."""
    file = tmp_path / "data" / "x.db"
    start_run(file)
    return file


@pytest.fixture
def not_writable_here(file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like one mounted read-only in a container but writable outside of it."""
    real = os.access

    def access(path: Any, mode: int, **more: Any) -> bool:
        return mode != os.W_OK and real(path, mode, **more)

    monkeypatch.setattr(os, "access", access)
    return file


def write(file: Path) -> None:
    """Write as another process does; at its end it moves its log into the file."""
    with closing(sqlite3.connect(file)) as other, other:
        columns = "tenant, project, scope, kb, strategy, status, started_at"
        other.execute(
            f"insert into catalog_runs ({columns}, run_id)"
            f" select {columns}, run_id || 'x' from catalog_runs"
        )


def test_the_folder_stays_as_it_is(not_writable_here: Path) -> None:
    """Reading makes no log and no lock next to the file; an ingest is refused with its reason."""
    with closing(Catalog(not_writable_here)) as catalog:
        assert len(catalog.runs.list(HERE, 9)) == 1
        assert names(not_writable_here.parent) == ["x.db"]
        with pytest.raises(ReadOnlyError, match=r"x\.db: cannot be written here"):
            catalog.lease(HERE).__enter__()
        with pytest.raises(StoreError, match=r"readonly database; make the file and its folder"):
            catalog.ledger.start_run(Lease(HERE, 1), "upsert")


def test_another_process_writes_between(not_writable_here: Path) -> None:
    """The next read finds what another process wrote in the meantime."""
    with closing(Catalog(not_writable_here)) as catalog:
        assert len(catalog.runs.list(HERE, 9)) == 1
        write(not_writable_here)
        assert len(catalog.runs.list(HERE, 9)) == 2


def test_another_process_writes_meanwhile(not_writable_here: Path) -> None:
    """A read during a write of another process is refused rather than returning wrong data."""
    before = file_identity(not_writable_here)
    assert before is not None
    with (
        pytest.raises(StoreError, match=r"x\.db: was changed by another process"),
        unchanged(not_writable_here, before),
    ):
        write(not_writable_here)


def test_a_log_is_read(not_writable_here: Path) -> None:
    """A read includes what another process committed and still has in its log."""
    with closing(sqlite3.connect(not_writable_here)) as other:
        other.execute("delete from catalog_runs")
        other.commit()
        with closing(Catalog(not_writable_here)) as catalog:
            assert not catalog.runs.list(HERE, 9)


def test_a_file_that_is_written_keeps_its_identity(file: Path) -> None:
    """If this process may write, writes of another process do not make it reopen the file."""
    before = file_identity(file)
    write(file)
    assert file_identity(file) == before


@pytest.mark.parametrize("name", ["wh?at", "a?mode=memory", "per%20cent", "ha#sh", "b%", "{c}"])
def test_names_that_mean_something_in_an_address(tmp_path: Path, name: str) -> None:
    """Whatever its name contains, a folder gets its files, and no other folder gets them."""
    for folder in (tmp_path / name, tmp_path / f"{name}2"):
        folder.mkdir()
        start_run(folder / "x.db")
    assert len(list(tmp_path.iterdir())) == 2


def test_a_name_that_sqlite_does_not_take(tmp_path: Path) -> None:
    """A name that is too long is refused with its length and a suggested fix."""
    folder = tmp_path.joinpath(*["long" * 40] * 4)
    folder.mkdir(parents=True)
    with pytest.raises(StoreError, match=r"bytes, but SQLite opens .*; move the project"):
        connect(folder / "x.db", mode="rwc", timeout=1)
