"""Transactions on SQLite: connections, forks, errors, several processes."""

from __future__ import annotations

import gc
import os
import sqlite3
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from lorebind_config.errors import StoreError
from lorebind_knowledge.database import sqlite as database_module
from lorebind_knowledge.database.sqlite import SqliteDatabase
from tests.processes import run_program

# The beginning of the other processes' scripts: `database`, on the file in their arguments.
PRELUDE = """
import os, sys, threading, warnings
from pathlib import Path
from lorebind_knowledge.catalog.schema import CATALOG
from lorebind_knowledge.database.databases import EmbeddedDatabase
warnings.simplefilter("ignore", DeprecationWarning)  # forks with threads are what is tried here
database = EmbeddedDatabase(Path(sys.argv[1]), CATALOG)
def put(value):
    with database.writing() as sql:
        sql.run("create table if not exists t (x integer)")
        sql.run("insert into t values (:value)", value=value)
def read():
    with database.reading() as sql:
        return [x for (x,) in sql.run("select x from t order by x")]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.db"


@pytest.fixture
def database(path: Path) -> Iterator[SqliteDatabase]:
    """Return a database with one table of one row."""
    with closing(SqliteDatabase(path, "x.db")) as database:
        fill(database)
        yield database


@pytest.fixture
def memory() -> Iterator[SqliteDatabase]:
    with closing(SqliteDatabase(None, "x.db")) as database:
        fill(database)
        yield database


def fill(database: SqliteDatabase) -> None:
    with database.writing() as db:
        db.execute("create table t (x integer unique)")
    put(database, 1)


def put(database: SqliteDatabase, value: object) -> None:
    with database.writing() as db:
        db.execute("insert into t values (?)", (value,))


def read(database: SqliteDatabase) -> list[int]:
    with database.reading() as db:
        return [x for (x,) in db.execute("select x from t order by x")]


def run(script: str, path: Path) -> str:
    done = run_program([sys.executable, "-W", "error", "-c", PRELUDE + script, str(path)])
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# Transactions


def test_a_block_that_raises_changes_nothing(
    database: SqliteDatabase, memory: SqliteDatabase
) -> None:
    """A block that raises is rolled back, and the next one works."""

    def attempt(each: SqliteDatabase) -> None:
        with each.writing() as db:
            db.execute("insert into t values (2)")
            db.execute("insert into t values (3)")
            raise ZeroDivisionError

    for each in (database, memory):
        with pytest.raises(ZeroDivisionError):
            attempt(each)
        assert read(each) == [1]
        put(each, 4)
        assert read(each) == [1, 4]


def test_a_view_does_not_change(database: SqliteDatabase) -> None:
    """A reader does not see concurrent writes, and does not block a writer."""
    with database.reading() as db:
        assert db.execute("select count(*) from t").fetchone()[0] == 1
        put(database, 2)
        assert db.execute("select count(*) from t").fetchone()[0] == 1
    assert read(database) == [1, 2]


def test_views_within_views(database: SqliteDatabase) -> None:
    """Any number of threads can open a snapshot inside another one without waiting."""
    ready = threading.Barrier(40, timeout=30)

    def look(_: int) -> list[int]:
        with database.reading() as db:
            db.execute("select 1 from t").fetchall()
            ready.wait()
            return read(database)

    with ThreadPoolExecutor(40) as threads:
        assert list(threads.map(look, range(40))) == [[1]] * 40


def test_errors_are_named(database: SqliteDatabase) -> None:
    """An error names the file and a suggested fix."""

    def attempt(statement: str) -> None:
        with database.writing() as db:
            db.execute(statement)

    for statement, reason in {
        "select * from missing": r"x\.db: no such table.*it is damaged; move the file away",
        "insert into t values (1)": r"x\.db: UNIQUE constraint failed.*it is damaged",
        "nonsense": r"x\.db: near \"nonsense\"",
        f"insert into t values ('{chr(0xD800)}')": r"x\.db: not valid Unicode",
    }.items():
        with pytest.raises(StoreError, match=reason):
            attempt(statement)
    assert read(database) == [1]


def test_a_message_that_is_no_text(path: Path) -> None:
    """An error is readable even if SQLite quotes invalid bytes of a damaged file."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("create table thing (a)")
    whole = path.read_bytes()
    spoiled = whole.replace(b"tablethingthing", b"table\xfahingthing")
    path.write_bytes(spoiled.replace(b"CREATE TABLE thing", b"CREATE TABLX thing"))
    assert path.read_bytes() not in (whole, spoiled)
    with (
        pytest.raises(StoreError, match=r"x\.db: it is damaged; move the file away"),
        SqliteDatabase(path, str(path)).reading() as db,
    ):
        db.execute("select 1 from thing")


def test_a_full_disk(database: SqliteDatabase) -> None:
    """A full disk is an error that asks for space; nothing is lost."""

    def attempt() -> None:
        with database.writing() as db:
            db.execute("create table big (x blob)")
            db.execute("pragma max_page_count = 100")
            db.execute("insert into big values (zeroblob(10000000))")

    with pytest.raises(StoreError, match=r"disk is full; free some space.*nothing is lost"):
        attempt()
    assert read(database) == [1]
    put(database, 2)


def test_the_first_switch_to_a_log(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new file that another process has locked at that moment is waited for."""
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 5)
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("create table t (x integer)")
    holder.execute("begin exclusive")
    release = threading.Timer(0.3, holder.execute, ["commit"])
    release.start()
    with closing(SqliteDatabase(path, "x.db")) as database, closing(holder):
        assert read(database) == []
        release.join()


def test_processes_that_make_the_file(path: Path) -> None:
    """Processes that create the file and its tables at the same moment all succeed."""
    script = PRELUDE + "for n in range(10): put(n)\ndatabase.close()"
    command = [sys.executable, "-W", "error", "-c", script, str(path)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    with closing(SqliteDatabase(path, "x.db")) as database:
        assert len(read(database)) == 40


# The file


def test_nothing_is_made_by_reading(path: Path) -> None:
    """The first write creates the file, and reading does not."""
    with closing(SqliteDatabase(path, "x.db")) as database:
        with database.reading() as db:
            assert db.execute("select count(*) from sqlite_master").fetchone()[0] == 0
        assert not path.exists()
        with database.writing() as db:
            db.execute("create table catalog_runs (id text)")
        with database.reading() as db:
            assert db.execute("select count(*) from sqlite_master").fetchone()[0] == 1


def test_from_another_folder(
    database: SqliteDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that changes its working directory still uses the same file."""
    monkeypatch.chdir(tmp_path)
    with closing(SqliteDatabase(Path("x.db"), "x.db")) as relative:
        assert read(relative) == [1]
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        relative.close()
        assert read(relative) == [1]


def test_a_file_that_was_removed_or_replaced(database: SqliteDatabase, path: Path) -> None:
    """Connections to a removed or replaced file are not used for the current one."""
    other = path.with_name("other.db")
    with closing(sqlite3.connect(other)) as copy, copy:
        copy.execute("create table t (x integer)")
        copy.execute("insert into t values (5)")
    with database.reading() as db:
        db.execute("select * from t").fetchall()
        for file in path.parent.glob("x.db*"):
            file.unlink()
        other.rename(path)
        assert read(database) == [5]
    assert read(database) == [5]
    path.unlink()
    with pytest.raises(StoreError, match="no such table"):
        read(database)
    assert not path.exists()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights are those of POSIX")
def test_a_folder_that_may_not_be_looked_into(tmp_path: Path) -> None:
    """A folder without access is an error, instead of reading as empty."""
    inside = tmp_path / "x.db"
    script = """
if os.geteuid() == 0:
    os.chown(os.path.dirname(sys.argv[1]), 0, 0)
    os.setuid(65534)
from lorebind_config.errors import StoreError
for attempt in (read, lambda: put(1)):
    try:
        attempt()
    except StoreError as error:
        print(error)
"""
    tmp_path.chmod(0o000)
    try:
        reading, writing = run(script, inside).splitlines()
        assert (
            "cannot be reached: Permission denied; check the permissions of its folder" in reading
        )
        assert "Permission denied; make " in writing
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_close_gives_back_every_handle(database: SqliteDatabase) -> None:
    """After `close`, every connection is closed; one in use is closed when it is given back."""
    with ThreadPoolExecutor(12) as threads:
        list(threads.map(lambda _: read(database), range(100)))
    assert handles(database) > 0
    with database.reading() as db:
        db.execute("select * from t").fetchall()
        database.close()
        assert handles(database) > 0
    assert handles(database) == 0
    assert read(database) == [1]
    database.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gc.collect()
    assert handles(database) == 0


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_errors_leave_no_handle(database: SqliteDatabase) -> None:
    """Blocks that fail leave no connections and no lock."""
    read(database)
    before = handles(database)
    for _ in range(20):
        with pytest.raises(StoreError):
            put(database, 1)
    assert handles(database) <= before
    put(database, 2)


def handles(database: SqliteDatabase) -> int:
    links = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:  # the handle of the listing itself
            continue
    return sum(link.startswith(str(database.path)) for link in links)


# Forks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_forks(path: Path) -> None:
    """After a fork, parent and child work with their own connections, also inside snapshots."""
    script = """
put(0)
memory = EmbeddedDatabase(None, CATALOG)
stop = threading.Event()
def busy():
    while not stop.is_set():
        with database.reading(), memory.reading():
            assert read()[0] == 0
def busy_writing():
    while not stop.is_set():
        put(-0)
threads = [threading.Thread(target=work) for work in (busy, busy, busy_writing)]
for thread in threads:
    thread.start()
for number in range(1, 21, 2):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            put(number)
            assert number in read()
            with memory.reading():
                pass
            status = 0
        finally:
            os._exit(status)
    put(number + 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for thread in threads:
    thread.join()
assert sorted(set(read())) == list(range(21)), read()
database.close()
print("done")
"""
    assert run(script, path) == "done"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_within_a_view(path: Path) -> None:
    """A thread that forks inside its own snapshot does not wait for itself."""
    script = """
import time
put(1)
with database.reading():
    begun = time.monotonic()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            assert read() == [1]
            put(2)
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert time.monotonic() - begun < 20
assert read() == [1, 2]
database.close()
print("done")
"""
    assert run(script, path) == "done"
