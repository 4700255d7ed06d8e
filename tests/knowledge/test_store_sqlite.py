"""What is particular to the SQLite store: processes, crashes, damaged files, forks, handles."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from lorebind_knowledge.errors import StoreError, UsageError
from lorebind_knowledge.records import RecordFilter, SearchOptions
from lorebind_knowledge.stores import SqliteStore
from lorebind_knowledge.stores.sqlite import file as sqlite_file
from lorebind_knowledge.testing.store_driver import EAST, INDEX, NORTH, record, vector

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = str(Path(__file__).parents[2])

# What the other processes of these tests begin with: `store`, on the file given to them.
PRELUDE = """
import os, sys, time
from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.records import RecordFilter, SearchOptions
from lorebind_knowledge.stores import SqliteStore
from lorebind_knowledge.testing.store_driver import EAST, INDEX, record, vector
store = SqliteStore(sys.argv[1])
def search(top_k=50):
    return store.similarity_search(vector(EAST), SearchOptions(INDEX, top_k))
def generation(number, size):
    store.upsert([
        record(f"{number}-{n}", generation=number, text=f"words {number}", n=number)
        for n in range(size)
    ])
    store.publish(INDEX, "a.md", number)
    store.delete_by_filter(RecordFilter(INDEX, uri="a.md", except_generation=number))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path)
    store.open(INDEX, 4)
    yield store
    store.close()


KILLED = """
sys.path.insert(0, {repository!r})
from tests.fatal_step import Steps
Steps().kill_at({at})
for number in range(2, 1_000):
    generation(number, 200)
"""


def start(script: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PRELUDE + script, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    try:
        output, errors = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        # With the children it may have.
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    assert process.returncode == 0, errors
    return output.strip()


def await_go(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"


def found(store: SqliteStore, top_k: int = 50) -> list[str]:
    return [m.id for m in store.similarity_search(vector(EAST), SearchOptions(INDEX, top_k))]


def words(store: SqliteStore, query: str) -> list[str]:
    return [m.id for m in store.lexical_search(query, SearchOptions(INDEX, 50))]


def test_processes_never_see_a_gap_or_a_mixture(store: SqliteStore, path: Path) -> None:
    """While one process publishes, others find one generation, whole, and never an older one."""
    size, last = 4, 60
    store.upsert([record(f"1-{n}", text="words 1", n=1) for n in range(size)])
    store.publish(INDEX, "a.md", 1)
    reader = f"""
newest = searches = 0
deadline = time.monotonic() + 30
while newest < {last} and time.monotonic() < deadline:
    matches = search()
    numbers = {{m.metadata["n"] for m in matches}}
    assert len(matches) == {size} and len(numbers) == 1, numbers
    assert {{m.text for m in matches}} == {{f"words {{numbers.copy().pop()}}"}}
    assert numbers.copy().pop() >= newest
    newest, searches = numbers.pop(), searches + 1
    if searches == 1:
        print("go", flush=True)
    hits = store.lexical_search("words", SearchOptions(INDEX, 50))
    assert len(hits) == {size} and len({{m.metadata["n"] for m in hits}}) == 1
assert newest == {last}, newest
print(searches)
store.close()
"""
    readers = [start(reader, path) for _ in range(2)]
    for process in readers:
        await_go(process)
    writer = start(
        f"for number in range(2, {last + 1}):\n    generation(number, {size})\nstore.close()", path
    )
    finish(writer)
    assert all(int(finish(process)) > 1 for process in readers)
    assert store.delete_by_filter(RecordFilter(INDEX)) == size


def test_several_processes_write(path: Path) -> None:
    """Processes that make the file and write to it at the same moment all succeed."""
    script = """
store.open(INDEX, 4)
for number in range(10):
    uri = f"{sys.argv[1]}-{os.getpid()}-{number}"
    store.upsert([record(uri, uri=uri)])
    store.publish(INDEX, uri, 1)
store.close()
"""
    for process in [start(script, path) for _ in range(4)]:
        finish(process)
    store = SqliteStore(path)
    assert store.count(INDEX) == len(found(store)) == 40
    store.close()


def test_killed_writer_leaves_a_readable_file(store: SqliteStore, path: Path) -> None:
    """After kill -9 in the midst of writing, readers and writers go on with a whole generation."""
    store.upsert([record(f"1-{n}", n=1) for n in range(200)])
    store.publish(INDEX, "a.md", 1)
    for at in (100, 1_234, 5_678):
        process = start(KILLED.format(repository=REPOSITORY, at=at), path)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL, errors
        again = SqliteStore(path)
        ids = found(again, 1000)
        assert len(ids) == 200
        assert len({name.partition("-")[0] for name in ids}) == 1
        assert found(store, 1000) == ids
        again.upsert([record("new", uri="b.md")])
        again.publish(INDEX, "b.md", 1)
        assert "new" in found(store, 1000)
        again.delete_by_filter(RecordFilter(INDEX, uri="b.md"))
        again.close()
    with sqlite3.connect(path) as db:
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
        db.execute("insert into vector_words_1 (vector_words_1) values ('integrity-check')")
    db.close()


def test_word_index_keeps_step(store: SqliteStore, path: Path) -> None:
    """The words that are found are those of the published records, after any kind of change."""
    store.upsert([record("a", text="tiger\0lion"), record("b", text="lion")])
    assert words(store, "lion") == []
    store.publish(INDEX, "a.md", 1)
    assert set(words(store, "lion")) == {"a", "b"}
    store.upsert([record("b", text="panther")])
    store.publish(INDEX, "a.md", 1)
    assert words(store, "lion") == ["a"]
    store.upsert([record("c", text="lion", generation=2)])
    store.publish(INDEX, "a.md", 2)
    assert words(store, "lion tiger panther") == ["c"]
    store.delete_by_filter(RecordFilter(INDEX, except_generation=2))
    assert words(store, "lion") == ["c"]
    with sqlite3.connect(path) as db:
        db.execute("insert into vector_words_1 (vector_words_1) values ('integrity-check')")
        assert db.execute("select count(*) from vector_words_1_docsize").fetchall() == [(1,)]
    db.close()
    store.drop(INDEX)
    store.open(INDEX, 4)
    assert words(store, "lion") == []


def test_nothing_is_made_before_the_first_write(tmp_path: Path) -> None:
    """A store that is only asked makes neither file nor folder; the first open makes both."""
    path = tmp_path / ".lorebind" / "store.db"
    store = SqliteStore(path)
    with pytest.raises(StoreError, match="nothing has been ingested"):
        found(store)
    with pytest.raises(StoreError, match="nothing has been ingested"):
        store.upsert([record("a")])
    assert store.delete_by_filter(RecordFilter(INDEX)) == 0
    store.drop(INDEX)
    assert not path.parent.exists()
    store.open(INDEX, 4)
    assert found(store) == []
    assert (path.parent / ".gitignore").read_text(encoding="utf-8") == "*\n"
    store.close()


def test_lives_beside_other_tables(path: Path) -> None:
    """The file may hold another program's tables, which are left alone."""
    with sqlite3.connect(path) as db:
        db.execute("create table catalog_runs (id text)")
        db.execute("insert into catalog_runs values ('r1')")
    db.close()
    store = SqliteStore(path)
    with pytest.raises(StoreError, match="nothing has been ingested"):
        found(store)
    store.open(INDEX, 4)
    store.drop(INDEX)
    store.close()
    with sqlite3.connect(path) as db:
        assert db.execute("select id from catalog_runs").fetchall() == [("r1",)]
    db.close()


def test_removed_file_is_noticed(store: SqliteStore, path: Path) -> None:
    """A file that is removed, or replaced by another, is not answered from memory."""
    store.upsert([record("a")])
    store.publish(INDEX, "a.md", 1)
    assert found(store) == ["a"]
    other = SqliteStore(path.with_name("other.db"))
    other.open(INDEX, 4)
    other.upsert([record("b", NORTH), record("c")])
    other.publish(INDEX, "a.md", 1)
    other.close()
    for file in [path, *path.parent.glob("store.db-*")]:
        file.unlink(missing_ok=True)
    path.with_name("other.db").rename(path)
    assert found(store) == ["c", "b"]
    path.unlink()
    with pytest.raises(StoreError, match="nothing has been ingested"):
        found(store)


@pytest.mark.parametrize(
    "content", [b"This is no database. " * 400, b"SQLite format 3\0" + b"\xa5" * 8000]
)
def test_not_a_database(path: Path, content: bytes) -> None:
    """A file that is something else, or damaged, is named with a way out, and left as it is."""
    path.write_bytes(content)
    store = SqliteStore(path)
    for attempt in (lambda: found(store), lambda: store.open(INDEX, 4)):
        with pytest.raises(StoreError, match=r"store\.db.*(move it away)"):
            attempt()
    store.close()
    assert path.read_bytes() == content


def test_damaged_pages(store: SqliteStore, path: Path) -> None:
    """Damage inside the file is an error, not an answer without the records it hit."""
    store.upsert([record(f"{n:04d}", uri=f"{n}.md", text="x" * 900) for n in range(300)])
    for n in range(300):
        store.publish(INDEX, f"{n}.md", 1)
    store.close()
    content = bytearray(path.read_bytes())
    for page in range(20, len(content) // 4096):
        content[page * 4096 : page * 4096 + 200] = b"\xa5" * 200
    path.write_bytes(content)
    damaged = SqliteStore(path)
    with pytest.raises(StoreError, match=r"store\.db: is damaged; move it away and ingest again"):
        found(damaged, 300)
    damaged.close()


def test_newer_schema(store: SqliteStore, path: Path) -> None:
    """A file of a later version is refused rather than misread."""
    store.close()
    with sqlite3.connect(path) as db:
        db.execute("update vector_schema set version = 99")
    db.close()
    later = SqliteStore(path)
    for attempt in (lambda: found(later), lambda: later.open(INDEX, 4)):
        with pytest.raises(StoreError, match=r"newer version.*schema 99.*upgrade Lorebind"):
            attempt()
    later.close()


def test_locked(store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that is not given back in time is an error that says so; readers do not mind it."""
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.05)
    impatient = SqliteStore(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    assert found(impatient) == []
    with pytest.raises(StoreError, match=r"another process has held its lock.*try again"):
        SqliteStore(path).upsert([record("a")])
    holder.close()
    impatient.upsert([record("a")])
    impatient.close()


def test_folder_that_is_a_file(tmp_path: Path) -> None:
    """A path that leads through a file is an error that names it."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    store = SqliteStore(tmp_path / "file" / "store.db")
    with pytest.raises(StoreError, match=r"store\.db: cannot be reached"):
        store.open(INDEX, 4)
    folder = SqliteStore(tmp_path)
    with pytest.raises(StoreError, match="cannot be opened; check that it is a file"):
        folder.open(INDEX, 4)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights are those of POSIX")
def test_read_only_folder() -> None:
    """Where nothing may be written, that is said; nothing is answered as if it were empty."""
    # Not under `tmp_path`, whose parents only their owner may enter: root may write anywhere, so
    # the other process becomes somebody else.
    folder = Path(tempfile.mkdtemp())
    script = """
if os.geteuid() == 0:
    os.setuid(65534)
for attempt in (
    lambda: store.open(INDEX, 4),
    lambda: SqliteStore(os.path.dirname(sys.argv[1]) + "/new/store.db").open(INDEX, 4),
    lambda: generation(2, 1),
):
    try:
        attempt()
    except StoreError as error:
        print(error)
    else:
        print("done")
"""
    try:
        store = SqliteStore(folder / "store.db")
        folder.chmod(0o555)
        first, second, third = finish(start(script, folder / "store.db")).splitlines()
        assert "cannot be opened" in first
        assert "cannot make the folder" in second
        assert "nothing has been ingested" in third
        folder.chmod(0o755)
        store.open(INDEX, 4)
        store.close()
        (folder / "store.db").chmod(0o444)
        folder.chmod(0o555)
        *_, third = finish(start(script, folder / "store.db")).splitlines()
        assert "cannot be written" in third or "cannot be opened" in third
        assert "right" in third or "may" in third
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_after_a_fork(path: Path) -> None:
    """Parent and child both go on, each with connections of its own, while a thread searches."""
    script = """
import threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads is what is tried here
store.open(INDEX, 4)
store.upsert([record("a")])
store.publish(INDEX, "a.md", 1)
stop = threading.Event()
def busy():
    while not stop.is_set():
        search()
thread = threading.Thread(target=busy)
thread.start()
for number in range(10):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            assert [m.id for m in search()][0] == "a"
            store.upsert([record(f"c{number}", uri=f"c{number}")])
            store.publish(INDEX, f"c{number}", 1)
            status = 0
        finally:
            os._exit(status)
    store.upsert([record(f"p{number}", uri=f"p{number}")])
    store.publish(INDEX, f"p{number}", 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
assert store.count(INDEX) == 21, store.count(INDEX)
store.close()
print("done")
"""
    assert finish(start(script, path)) == "done"


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_close_gives_back_every_handle(path: Path) -> None:
    """After `close` no thread's connection is left open, and nothing complains at collection."""
    store = SqliteStore(path)
    store.open(INDEX, 4)
    threads = [threading.Thread(target=found, args=(store,)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert handles(path) > 0
    store.close()
    assert handles(path) == 0
    with pytest.raises(StoreError, match="closed"):
        store.upsert([record("a")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del store
        gc.collect()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_errors_leave_no_handle(store: SqliteStore, path: Path) -> None:
    """Failed calls do not pile up connections or hold the lock."""
    found(store)
    before = handles(path)
    for _ in range(20):
        with pytest.raises(StoreError):
            store.similarity_search(np.ones(9, np.float32), SearchOptions(INDEX))
        with pytest.raises(StoreError):
            store.upsert([record("a", (1.0,))])
    assert handles(path) <= before
    store.upsert([record("a")])


def handles(path: Path) -> int:
    links = [os.readlink(f"/proc/self/fd/{fd}") for fd in descriptors()]
    return sum(link.startswith(str(path)) for link in links)


def descriptors() -> list[str]:
    # The listing's own descriptor is closed again by the time it is looked at.
    return [fd for fd in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{fd}")]


def test_memory_path_is_refused() -> None:
    """SQLite's name for a database in memory would be a file here, so it is refused."""
    with pytest.raises(UsageError, match="MemoryStore"):
        SqliteStore(":memory:")
