"""The way of a question through the code, from the call to the store."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, CoroutineType, FrameType
from typing import Any

import pytest

import lorebind
import lorebind_bindings
import lorebind_config
import lorebind_knowledge
from lorebind import Project
from lorebind_knowledge.stores.base import SearchHits
from lorebind_knowledge.stores.sqlite import SqliteStore

MOST = 18
PACKAGES = [
    Path(package.__file__ or "").parent
    for package in (lorebind, lorebind_bindings, lorebind_config, lorebind_knowledge)
]
COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}


def frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def awaited_functions() -> Iterator[CodeType]:
    """Yield the functions that the tasks of all event loops are in, in any thread."""
    for innermost in sys._current_frames().values():
        for frame in frames(innermost):
            if frame.f_code.co_name == "run_forever":
                for task in asyncio.all_tasks(frame.f_locals["self"]):
                    coroutine: Any = task.get_coro()
                    while isinstance(coroutine, CoroutineType):
                        yield coroutine.cr_code
                        coroutine = coroutine.cr_await


def functions_in_progress() -> list[str]:
    """Return our functions between a caller in the main thread and this thread."""
    caller = sys._current_frames()[threading.main_thread().ident or 0]
    codes = [frame.f_code for frame in [*frames(caller), *frames(sys._getframe())]]
    return [
        f"{Path(code.co_filename).name}: {code.co_qualname}"
        for code in [*codes, *awaited_functions()]
        if any(Path(code.co_filename).is_relative_to(package) for package in PACKAGES)
        and not COMPREHENSIONS & set(code.co_qualname.split("."))
    ]


class Observed(SqliteStore):
    """A store that records the functions in progress at each search."""

    seen: list[list[str]]

    def nearest(self, *args: Any, **options: Any) -> SearchHits:
        deadline = time.monotonic() + 60
        functions = functions_in_progress()
        while "bridge.py: call" not in functions:  # the loop has not begun to wait yet
            assert time.monotonic() < deadline, functions
            functions = functions_in_progress()
        self.seen.append([*functions, "sqlite.py: SqliteStore.nearest"])
        return super().nearest(*args, **options)


@pytest.mark.parametrize("strategy", ["similarity", "hybrid"])
def test_functions_from_a_question_to_the_store(
    tmp_path: Path, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are at most 18, in the threads of the caller, of the loop and of the search."""
    seen: list[list[str]] = []
    monkeypatch.setattr(Observed, "seen", seen, raising=False)
    monkeypatch.setattr("lorebind_knowledge.stores.sqlite.SqliteStore", Observed)
    declared = {
        "name": "p",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "knowledge_bases": [
            {"id": "docs", "sources": [{"type": "inline", "documents": [{"id": "a", "text": "a"}]}]}
        ],
    }
    with Project.build(declared, root=tmp_path) as project:
        project.ingest("docs")
        seen.clear()
        assert project.query("docs", "a", strategy=strategy).matches
    (functions,) = seen
    assert {"bridge.py: run", "view.py: View.nearest"} <= set(functions)
    assert len(functions) <= MOST, "\n".join(functions)
