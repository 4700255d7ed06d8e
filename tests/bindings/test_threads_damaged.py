"""Damaged threads: each method reads them as they were written, or says which thread is damaged."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from lorebind_bindings import RunResult, Workflows
from lorebind_config.errors import LorebindError, StoreError
from tests.density import DENSE

from .workflow_helpers import collection, flow, python, says, wait, workflows

VALUES: list[Any] = [
    None,
    "",
    "text",
    7,
    b"\xff\xfe",
    b"{}",
    b"[]",
    b"null",
    b'{"key": 1}',
    b"[" * 100_000,
    "lorebind",
    "__interrupt__",
    "__error__",
]
"""Values that are written into any column, whatever its type."""


def project(root: Path) -> Workflows:
    tasks = (
        python("a", says({"n": 1})),
        collection("c", [1, 2], python("i", says("x"))),
        wait("ask", schema={"type": "boolean"}),
        python("end", says("ended")),
    )
    return workflows(flow(*tasks), root=root, checkpointer={"type": "sqlite"})


CALLS: dict[str, Callable[[Workflows], Any]] = {
    "threads": lambda flows: flows.threads("w"),
    "thread": lambda flows: flows.thread("w", "waiting"),
    "state": lambda flows: flows.state("w", "done"),
    "history": lambda flows: flows.history("w", "waiting"),
    "replay": lambda flows: flows.replay("w", "waiting", 1),
    "resume": lambda flows: flows.resume("w", "waiting", {"ask": True}),
    "run": lambda flows: flows.run("w", {}, thread_id="done"),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a waiting thread and one that has completed."""
    root = tmp_path_factory.mktemp("whole")

    async def begin() -> None:
        flows = project(root)
        for thread in ("done", "waiting"):
            await flows.run("w", {}, thread_id=thread)
        await flows.resume("w", "done", {"ask": True})
        await flows.close()

    asyncio.run(begin())
    return root / ".lorebind" / "threads.db"


def damaged_values(value: Any) -> Iterator[Any]:
    """Yield what a column may contain instead: other values, and for JSON its changed parts."""
    yield from VALUES
    if isinstance(value, bytes):
        yield value[:-1]
        yield value.decode()
        data = json.loads(value)
        for key in data if isinstance(data, dict) else ():
            yield json.dumps({**data, key: []}).encode()
            yield json.dumps({name: value for name, value in data.items() if name != key}).encode()


@pytest.mark.parametrize("table", ["checkpoints", "writes"])
def test_a_damaged_value_is_said(table: str, whole: Path, tmp_path: Path) -> None:
    """An error names the file and the thread and says what to do; it is never a bug of Lorebind."""
    file = tmp_path / ".lorebind" / "threads.db"
    file.parent.mkdir()
    with closing(sqlite3.connect(whole)) as db:
        columns = [row[1] for row in db.execute(f"pragma table_info({table})")]
        rows = db.execute(f"select rowid, * from {table}").fetchall()
    cases = {
        (column, repr(other)): (row[0], column, other)
        for row in rows
        for column, value in zip(columns, row[1:], strict=True)
        if column not in ("thread_id", "checkpoint_ns")  # another key is another thread
        for other in damaged_values(value)
    }
    assert len(cases) > 60
    runs = 0

    async def check() -> None:
        nonlocal runs
        flows = project(tmp_path)
        for turn, (row, column, value) in enumerate(cases.values()):
            shutil.copy(whole, file)
            statement = f"update or ignore {table} set {column} = ? where rowid = ?"
            with closing(sqlite3.connect(file)) as db, db:
                db.execute(statement, [value, row])
            names = [*CALLS]
            for name in names if DENSE else (names[turn % 7], names[(turn + 3) % 7]):
                with suppress(LorebindError):
                    with tells_what_to_do(f"{name} with {column} = {value!r}"):
                        result = await CALLS[name](flows)
                    if isinstance(result, RunResult):
                        assert result.tasks["a"].output == {"n": 1}
                        runs += 1
            await flows.close()

    asyncio.run(check())
    assert 0 < runs < len(cases)


async def test_rows_that_belong_to_another_thread_now(whole: Path, tmp_path: Path) -> None:
    """A completed thread without its turns is damaged, and so is a run that loses its output."""
    file = tmp_path / ".lorebind" / "threads.db"
    file.parent.mkdir()
    for column in ("thread_id", "checkpoint_ns"):
        shutil.copy(whole, file)
        with closing(sqlite3.connect(file)) as db, db:
            newest = "select max(checkpoint_id) from checkpoints group by thread_id"
            db.execute(
                f"update checkpoints set {column} = 'x' || checkpoint_id where checkpoint_id not in"
                f" ({newest})"
            )
        flows = project(tmp_path)
        with pytest.raises(StoreError, match=r"thread 'done' is damaged: .* is missing; start"):
            await flows.resume("w", "done")
        await flows.close()


@contextmanager
def tells_what_to_do(case: str) -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        if not re.fullmatch(r"threads in .*/threads\.db: .*; .*move .* away.*", str(error)):
            pytest.fail(f"{case}: {error}")
        raise
