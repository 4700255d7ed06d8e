"""Features of the SQLite store: processes, crashes, damaged files, forks, its file."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lorebind_config.errors import StoreError, UsageError
from lorebind_knowledge.database import sqlite as database_module
from lorebind_knowledge.records import Partition
from lorebind_knowledge.stores.base import StoredVector
from lorebind_knowledge.stores.sqlite import SqliteStore
from lorebind_knowledge.testing.store_driver import INDEX, vectors
from tests.app.forked_python import Forked, ForkedPython

REPOSITORY = str(Path(__file__).parents[2])
SPACE = Partition(INDEX, 77, 4)
Start = Callable[..., Forked]

# The beginning of the other processes' scripts: `store`, on the file in their arguments.
PRELUDE = f"""
import os, sys, threading, time
sys.path.insert(0, {REPOSITORY!r})
from lorebind_config.errors import StoreError
from lorebind_knowledge.stores.sqlite import SqliteStore
from tests.knowledge.test_store_sqlite import SPACE, nearest, put
store = SqliteStore(sys.argv[1])
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(path)) as store:
        yield store


def put(store: SqliteStore, *numbers: int) -> None:
    """Add vectors; a number always has the same vector."""
    rows = [vectors(1, 4, seed=number)[0] for number in numbers]
    store.add(SPACE, [StoredVector(n, row, "", {}) for n, row in zip(numbers, rows, strict=True)])


def nearest(store: SqliteStore, k: int = 1000) -> list[int]:
    """Return the stored numbers, after checking that each has its vector."""
    hits = store.nearest(SPACE, vectors(1, 4, seed=0)[0], k, {}, None)
    for number, vector in zip(hits.numbers, hits.vectors, strict=True):
        assert np.array_equal(vector, vectors(1, 4, seed=number)[0])
    return sorted(hits.numbers)


@pytest.fixture
def start(forked: ForkedPython, path: Path) -> Start:
    """Return a function that starts a process with a script, on the file of this test."""

    def start(script: str, path: Path = path) -> Forked:
        return Forked(
            [forked.commands / "python", "-c", PRELUDE + script, str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def finish(process: Forked) -> str:
    try:
        output, errors = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
    assert process.returncode == 0, errors
    return output.strip()


def change(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement, values)


# Processes


def test_processes_see_whole_batches_at_once(store: SqliteStore, start: Start) -> None:
    """While one process adds and deletes, others find each batch complete, and no older state."""
    size, last = 5, 60
    put(store, *range(size, 2 * size))
    reader = f"""
newest = searches = 0
deadline = time.monotonic() + 40
while newest < {last} and time.monotonic() < deadline:
    numbers = nearest(store)
    batches = sorted({{number // {size} for number in numbers}})
    assert numbers == [b * {size} + n for b in batches for n in range({size})], numbers
    assert 1 <= len(batches) <= 2 and batches[-1] >= newest, batches
    newest, searches = batches[-1], searches + 1
    if searches == 1:
        print("go", flush=True)
assert newest == {last}, newest
print(searches)
store.close()
"""
    readers = [start(reader) for _ in range(2)]
    for process in readers:
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
    writer = f"""
for batch in range(2, {last + 1}):
    put(store, *range(batch * {size}, (batch + 1) * {size}))
    assert len(nearest(store)) == {2 * size}
    store.delete(SPACE, range((batch - 1) * {size}, batch * {size}))
    assert len(nearest(store)) == {size}
store.close()
"""
    finish(start(writer))
    assert nearest(store) == list(range(last * size, (last + 1) * size))
    assert all(int(finish(process)) > 1 for process in readers)


def test_several_processes_write(path: Path, start: Start) -> None:
    """Processes that create the file and write to it at the same moment all succeed."""
    script = """
for number in range(10):
    put(store, os.getpid() * 100 + number)
store.close()
"""
    for process in [start(script) for _ in range(4)]:
        finish(process)
    with closing(SqliteStore(path)) as store:
        assert store.count(SPACE) == len(nearest(store)) == 40


KILLED = """
from tests.fatal_step import Steps
Steps().kill_at({at})
for number in range(10_000):
    put(store, *range({first} + number * 10, {first} + number * 10 + 10))
    store.delete(SPACE, range({first} + number * 10 - 10, {first} + number * 10 - 5))
    nearest(store)
"""


def test_killed_writer_leaves_a_readable_file(store: SqliteStore, path: Path, start: Start) -> None:
    """After a writer is killed by kill -9, readers and writers continue with complete batches."""
    put(store, 1)
    for first, at in ((10_000, 100), (20_000, 1_234), (30_000, 3_456)):
        process = start(KILLED.format(first=first, at=at))
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGKILL, errors
        with closing(SqliteStore(path)) as again:
            numbers = nearest(again, 100_000)
            assert numbers == nearest(store, 100_000)
            halves = [number // 5 for number in numbers if number >= first]
            assert all(halves.count(half) == 5 for half in halves)
            put(again, first - 1)
            assert nearest(store, 100_000) == sorted([*numbers, first - 1])
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_after_a_fork(start: Start) -> None:
    """After a fork, parent and child have their own connections, while a thread searches."""
    script = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads is what is tried here
put(store, 1)
stop = threading.Event()
def busy():
    while not stop.is_set():
        nearest(store)
thread = threading.Thread(target=busy)
thread.start()
for number in range(10, 30, 2):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            assert nearest(store)[0] == 1
            put(store, number)
            assert number in nearest(store)
            status = 0
        finally:
            os._exit(status)
    put(store, number + 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
assert nearest(store) == [1, *range(10, 30)], nearest(store)
store.close()
print("done")
"""
    assert finish(start(script)) == "done"


# Its matrix in memory


def test_only_what_is_new_is_read(store: SqliteStore, path: Path) -> None:
    """Vectors are read only once, whatever others add and delete."""
    put(store, 1, 2, 3, 5)
    assert nearest(store) == [1, 2, 3, 5]
    change(path, "update store_vectors set embedding = x'00'")
    put(store, 4, 6)
    with closing(SqliteStore(path)) as other:
        other.delete(SPACE, [2])
    assert nearest(store) == [1, 3, 4, 5, 6]
    assert sorted(store.get(SPACE, [1, 2, 6])) == [1, 6]


def test_get_reads_no_more_than_it_needs(store: SqliteStore, path: Path) -> None:
    """Without an earlier search, `get` reads only the requested vectors."""
    put(store, 1, 2, 3)
    change(path, "update store_vectors set embedding = x'00' where number = 3")
    stored = store.get(SPACE, [2, 1, 9])
    assert sorted(stored) == [1, 2]
    np.testing.assert_array_equal(stored[2], vectors(1, 4, seed=2)[0])
    with pytest.raises(StoreError, match="is damaged"):
        store.get(SPACE, [3])


def test_threads_that_load_at_once(path: Path) -> None:
    """Threads that all find the matrix outdated get the same result."""
    with closing(SqliteStore(path)) as writer, closing(SqliteStore(path)) as reader:
        answers: list[list[int]] = []
        for number in range(1, 6):
            put(writer, *range(number * 100, number * 100 + 50))
            threads = [
                threading.Thread(target=lambda: answers.append(nearest(reader))) for _ in range(8)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(answers) == number * 8
            assert all(len(answer) == number * 50 for answer in answers[-8:])


# Its file


def test_nothing_is_made_before_the_first_add(tmp_path: Path) -> None:
    """Reading creates neither file nor folder; the first `add` creates both."""
    path = tmp_path / ".lorebind" / "store.db"
    with closing(SqliteStore(path)) as store:
        assert nearest(store) == []
        assert store.get(SPACE, [1]) == {}
        assert store.count(SPACE) == 0
        store.delete(SPACE, [1])
        store.drop(SPACE)
        store.add(SPACE, [])
        assert not path.parent.exists()
        put(store, 1)
        assert nearest(store) == [1]
    assert (path.parent / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_lives_beside_other_tables(path: Path) -> None:
    """The file may hold tables of another program, which do not change."""
    change(path, "create table catalog_runs (id text)")
    change(path, "insert into catalog_runs values ('r1')")
    with closing(SqliteStore(path)) as store:
        assert nearest(store) == []
        put(store, 1)
        store.drop(SPACE)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("select id from catalog_runs").fetchall() == [("r1",)]
        tables = db.execute("select name from sqlite_master where type = 'table' order by name")
        names = [name for (name,) in tables]
    assert names == ["catalog_runs", "store_spaces", "store_vectors"]


def test_removed_file_is_noticed(store: SqliteStore, path: Path) -> None:
    """Results for a removed or replaced file do not come from memory."""
    put(store, 1)
    assert nearest(store) == [1]
    with closing(SqliteStore(path.with_name("other.db"))) as other:
        put(other, 2, 3)
    for file in [path, *path.parent.glob("store.db-*")]:
        file.unlink(missing_ok=True)
    path.with_name("other.db").rename(path)
    assert nearest(store) == [2, 3]
    path.unlink()
    assert nearest(store) == []
    put(store, 4)
    assert nearest(store) == [4]


def test_memory_is_refused() -> None:
    """SQLite's name for a database in memory is refused, because it would be a file here."""
    with pytest.raises(UsageError, match="MemoryStore"):
        SqliteStore(":memory:")


# Its failures


@pytest.mark.parametrize(
    "content", [b"This is no database. " * 400, b"SQLite format 3\0" + b"\xa5" * 8000]
)
def test_not_a_database(path: Path, content: bytes) -> None:
    """The error for a file that is damaged or no database suggests a fix; it is not changed."""
    path.write_bytes(content)
    with closing(SqliteStore(path)) as store:
        attempts: list[Callable[[], object]] = [lambda: nearest(store), lambda: put(store, 1)]
        for attempt in attempts:
            with pytest.raises(StoreError, match=r"store\.db.*move the file away"):
                attempt()
    assert path.read_bytes() == content


def test_damaged_pages(store: SqliteStore, path: Path) -> None:
    """Damage inside the file is an error, not a result without the damaged vectors."""
    put(store, *range(1, 1500))
    store.close()
    content = bytearray(path.read_bytes())
    for page in range(5, len(content) // 4096):
        content[page * 4096 : page * 4096 + 200] = b"\xa5" * 200
    path.write_bytes(content)
    with (
        closing(SqliteStore(path)) as damaged,
        pytest.raises(StoreError, match=r"store\.db: .*move the file away, then ingest again"),
    ):
        nearest(damaged)


NAN = f"x'{'0000c07f' * 4}'"


@pytest.mark.parametrize(
    "damage",
    [
        "update store_vectors set embedding = substr(embedding, 1, 10) where number = 2",
        "update store_vectors set embedding = x'' where number = 2",
        "update store_vectors set embedding = 'garbage' where number = 2",
        f"update store_vectors set embedding = {NAN} where number = 2",
        "update store_vectors set number = 'two' where number = 2",
        "update store_spaces set dimension = 7",
        "update store_spaces set version = 'three'",
        "drop table store_vectors",
        "alter table store_vectors rename column embedding to vector",
        "alter table store_spaces rename column version to number",
    ],
)
def test_damaged_rows(store: SqliteStore, path: Path, damage: str) -> None:
    """Rows that Lorebind cannot have written are an error with a suggested fix."""
    put(store, 1, 2, 3)
    change(path, damage)
    with pytest.raises(StoreError, match=r"store\.db: .*move the file away, then ingest again"):
        nearest(store)


def test_locked(store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that is not released in time is an error for writers; readers are not affected."""
    put(store, 1)
    store.close()
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 0.05)
    with closing(SqliteStore(path)) as impatient:
        with closing(sqlite3.connect(path, isolation_level=None)) as holder:
            holder.execute("begin immediate")
            assert nearest(impatient) == [1]
            with pytest.raises(StoreError, match=r"locked; another process has locked it"):
                put(impatient, 2)
        put(impatient, 2)
        assert nearest(impatient) == [1, 2]


def test_folder_that_is_a_file(tmp_path: Path) -> None:
    """The error for a path through a file, or to a folder, names the path."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    with (
        closing(SqliteStore(tmp_path / "file" / "store.db")) as store,
        pytest.raises(StoreError, match=r"file: File exists; make .* or choose another location"),
    ):
        put(store, 1)
    with (
        closing(SqliteStore(tmp_path)) as store,
        pytest.raises(
            StoreError, match=f"{tmp_path}: the path is a folder; write the path of a file"
        ),
    ):
        put(store, 1)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights are those of POSIX")
def test_read_only_folder(start: Start) -> None:
    """In a read-only folder, a write is an error, and existing vectors can be searched."""
    # Not under `tmp_path`, whose parents only their owner may enter. Root may write anywhere, so
    # the other process runs as another user.
    folder = Path(tempfile.mkdtemp())
    script = """
if os.geteuid() == 0:
    os.setuid(65534)
print(nearest(store))
for attempt in (
    lambda: put(store, 2),
    lambda: put(SqliteStore(os.path.dirname(sys.argv[1]) + "/new/store.db"), 1),
):
    try:
        attempt()
    except StoreError as error:
        print(error)
    else:
        print("done")
"""
    try:
        path = folder / "store.db"
        folder.chmod(0o555)
        nothing, first, second = finish(start(script, path)).splitlines()
        assert nothing == "[]"
        assert "unable to open" in first
        assert "cannot create the folder" in second
        folder.chmod(0o755)
        with closing(SqliteStore(path)) as store:
            put(store, 1)
        path.chmod(0o444)
        folder.chmod(0o555)
        there, first, _ = finish(start(script, path)).splitlines()
        assert there == "[1]"
        assert "readonly database; make the file and its folder writable" in first
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_another_process_writes_where_this_one_cannot(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that is read-only only for this process, writes of others are found."""
    put(store, 1)
    store.close()
    real = os.access

    def access(file: Any, mode: int, **more: Any) -> bool:
        return mode != os.W_OK and real(file, mode, **more)

    with closing(SqliteStore(path)) as reader:
        with monkeypatch.context() as patch:
            patch.setattr(os, "access", access)
            assert nearest(reader) == [1]
        with closing(SqliteStore(path)) as writer:
            put(writer, *range(2, 200))
        monkeypatch.setattr(os, "access", access)
        assert nearest(reader) == list(range(1, 200))
