"""Threads in a SQLite file: its location and its errors."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from lorebind_bindings.workflow.threads.claims import FileClaims
from lorebind_config.errors import StoreError
from tests.processes import run_program

from .thread_graph import THREAD, Triage, listed, opened


async def test_the_file_is_made_by_the_first_thread(tmp_path: Path) -> None:
    """The first thread creates the file in an ignored folder; reading threads creates nothing."""
    store = await opened(tmp_path)
    assert await store.find(THREAD) is None
    assert await store.list(*THREAD[:3]) == []
    assert listed(tmp_path) == []
    await Triage(store).turn("first")
    await store.close()
    assert (tmp_path / ".lorebind" / ".gitignore").read_text() == "*\n"
    with closing(sqlite3.connect(tmp_path / ".lorebind" / "threads.db")) as db:
        assert db.execute("pragma journal_mode").fetchone() == ("wal",)
    assert listed(tmp_path / ".lorebind") == [".gitignore", "threads.db"]


async def test_a_file_that_is_no_database_is_named_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "t.db"
    file.write_text("hello, this is not a database at all" * 100)
    store = await opened(tmp_path, path="t.db")
    with pytest.raises(StoreError, match=r"t\.db: file is not a database; move the file away"):
        await store.find(THREAD)
    with pytest.raises(StoreError, match="not a database"):
        await Triage(store).turn("first")
    assert file.read_text().startswith("hello")


async def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "t.db")) as db:
        db.execute("create table customers (id)")
    store = await opened(tmp_path, path="t.db")
    with pytest.raises(StoreError, match=r"with the tables customers; .*type: memory"):
        await Triage(store).turn("first")
    await store.close()
    with closing(sqlite3.connect(tmp_path / "t.db")) as db:
        assert db.execute("select name from sqlite_master").fetchall() == [("customers",)]


async def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    for number in range(20):
        await Triage(store, THREAD._replace(id=str(number))).turn("x" * 500)
    await store.close()
    file = tmp_path / ".lorebind" / "threads.db"
    data = bytearray(file.read_bytes())
    data[4096:] = b"\x5a" * (len(data) - 4096)
    file.write_bytes(data)
    with pytest.raises(StoreError, match=r"threads\.db: .*move the file away"):
        await store.find(THREAD)


async def test_a_folder_that_cannot_be_made_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / ".lorebind").write_text("a file")
    store = await opened(tmp_path)
    with pytest.raises(StoreError, match="type: memory"):
        await Triage(store).turn("first")


def test_nothing_runs_in_a_read_only_folder(tmp_path: Path) -> None:
    """Existing threads in a read-only folder can be read."""

    async def begin() -> None:
        store = await opened(tmp_path)
        await Triage(store).turn("first")
        await store.close()

    asyncio.run(begin())
    script = (
        "import asyncio, sys; from pathlib import Path\n"
        "from tests.bindings.thread_graph import *\n"
        "async def main():\n"
        "    store = await opened(Path(sys.argv[1]))\n"
        "    print((await store.find(THREAD)).status)\n"
        "    try: await Triage(store).turn('second')\n"
        "    except Exception as error: print(type(error).__name__, error)\n"
        "asyncio.run(main())\n"
    )
    mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    around = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, str(tmp_path)]
    if subprocess.run([*around, "true"], capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    command = [*around, sys.executable, "-c", script, str(tmp_path)]
    done = run_program(command, check=True)
    status, refused = done.stdout.splitlines()
    assert status == "waiting"
    assert refused.startswith("StoreError threads in ")
    assert "Read-only file system; make its folder writable" in refused
    assert "`checkpointer: { type: memory }`" in refused


async def test_a_row_of_another_serializer_is_refused_and_not_run(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await Triage(store).turn("first")
    harm = tmp_path / "harm"
    pickled = b"cos\nsystem\n(S'touch " + str(harm).encode() + b"'\ntR."
    for tag in ("pickle", "msgpack", "bytes", "null"):
        with closing(sqlite3.connect(tmp_path / ".lorebind" / "threads.db")) as db:
            db.execute("update checkpoints set type = ?, checkpoint = ?", [tag, pickled])
            db.commit()
        for ask in (store.find(THREAD), Triage(store).turn("second"), store.turns(THREAD)):
            with pytest.raises(StoreError, match=f"of the kind '{tag}', which Lorebind does not"):
                await ask
    assert not harm.exists()


async def test_records_take_little_room(tmp_path: Path) -> None:
    """100 records of 1 kB use less than 2 MB, and less than 300 kB when the store is closed."""
    store = await opened(tmp_path)
    triage = Triage(store)
    await triage.turn("first")
    journal = await store.journal(THREAD)
    for number in range(100):
        await journal.put({"key": f"items[{number}]", "output": "x" * 1000})
    folder = tmp_path / ".lorebind"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 2_000_000
    await store.close()
    assert sum(path.stat().st_size for path in folder.iterdir()) < 300_000


async def test_records_that_come_together_are_written_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(tmp_path)
    await Triage(store).turn("first")
    sizes = []
    written = store.saver.put_writes

    def count(config: object, writes: list[object], *rest: object) -> None:
        sizes.append(len(writes))
        time.sleep(0.02)
        written(config, writes, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(store.saver, "put_writes", count)
    journal = await store.journal(THREAD)
    await asyncio.gather(*(journal.put({"key": f"x{n}", "output": n}) for n in range(100)))
    assert sizes == [100]
    sizes.clear()

    async def work(worker: int) -> None:
        for n in range(5):
            await journal.put({"key": f"y{worker}.{n}", "output": n})

    await asyncio.gather(*(work(worker) for worker in range(8)))
    assert sizes == [8] * 5


def test_who_asks_whether_a_thread_runs_does_not_refuse_it(tmp_path: Path) -> None:
    """Checking whether a thread runs takes the lock only briefly, and a claim waits for it."""
    script = (
        "import sys; from pathlib import Path\n"
        "from lorebind_bindings.workflow.threads.claims import FileClaims\n"
        "claims = FileClaims(Path(sys.argv[1]))\n"
        "print(flush=True)\n"
        "while True: claims.is_held('k')\n"
    )
    file = tmp_path / "t.db"
    command = [sys.executable, "-c", script, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as asking:
        try:
            assert asking.stdout
            asking.stdout.readline()
            claims = FileClaims(file)
            for _ in range(300):
                assert claims.take("k")
                assert FileClaims(file).is_held("k")
                claims.free("k")
        finally:
            asking.kill()


def test_no_package_is_imported_that_is_not_used() -> None:
    """Importing the module does not import sqlite-vec, which many Pythons cannot load."""
    script = (
        "import asyncio, sys; from pathlib import Path\n"
        "import lorebind_bindings.workflow.threads.threads\n"
        "assert 'langgraph' not in sys.modules\n"
        "from tests.bindings.thread_graph import *\n"
        "asyncio.run(opened(Path('.')))\n"
        "assert 'langgraph.checkpoint.sqlite' in sys.modules\n"
        "print([one for one in ('aiosqlite', 'sqlite_vec') if one in sys.modules])\n"
    )
    done = run_program([sys.executable, "-c", script], check=True)
    assert done.stdout == "[]\n"
