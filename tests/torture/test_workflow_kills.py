"""Workflows that are killed anywhere and resumed: nothing is lost, and little is repeated."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from .at_work import Processes, Running
from .trials import Case, Trials
from .workflow_at_work import ITEMS, PROJECT, WORKERS

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills by a signal of POSIX"),
    pytest.mark.enable_socket,
]

MAIN = "tests.torture.workflow_at_work:main"
GONE_SECONDS = 20.0
"""Seconds until a server notices that a process is gone."""


class Scene:
    """A run that is killed after some items, and resumed."""

    def __init__(self, root: Path, processes: Processes) -> None:
        self.root, self._processes = root, processes
        self._began = root / "began"
        self.again: list[int] = []
        """Number of items that ran again because of a kill."""

    def killed_after(self, items: int, seconds: float, verb: str) -> bool:
        """Run until this many items have started, wait, and kill; return whether it was running."""
        running = self._processes.start(self.root, MAIN, verb)
        while len(self.begun()) < items and running.code() is None:
            time.sleep(0.001)
        time.sleep(seconds)
        running.kill()
        while running.code() is None:
            time.sleep(0.001)
        return self._was_killed(running)

    def _was_killed(self, running: Running) -> bool:
        if running.code() == -signal.SIGKILL:
            return True
        assert running.code() == 0, running.printed
        return False

    def resumed(self) -> object:
        """Resume the run without killing it, and return its result."""
        deadline = time.monotonic() + GONE_SECONDS
        while True:
            code, printed = self._processes.start(self.root, MAIN, "resume").result()
            if code == 0:
                return json.loads(printed.splitlines()[-1])
            if "has no thread" in printed:  # it was killed before the thread was created
                code, printed = self._processes.start(self.root, MAIN, "run").result()
                assert code == 0, printed
                return json.loads(printed.splitlines()[-1])
            assert "is running" in printed, printed
            assert time.monotonic() < deadline, printed
            time.sleep(0.01)

    def begun(self) -> list[str]:
        """Return the started items in order."""
        return self._began.read_text().splitlines() if self._began.exists() else []

    def reported(self) -> set[str]:
        """Return the tasks whose end was reported, and whose records are therefore stored."""
        paths = set()
        events = self.root / "events.jsonl"
        for line in events.read_text().split("\n")[:-1] if events.exists() else ():
            if line and (event := json.loads(line))["type"] == "task_end":
                paths.add(event["path"])
        return paths


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_killed_runs(
    kind: str,
    tmp_path: Path,
    processes: Processes,
    new_dsn: Callable[[], str],
    trials: Trials,
) -> None:
    """Every item is processed; after a kill, at most one item per worker runs again."""
    again = Counter[int]()
    dsn = new_dsn() if kind == "postgres" else ""

    def check(case: Case) -> None:
        root = tmp_path / str(case.number)
        root.mkdir()
        place = '{ type: postgres, dsn: "{{ .env.DSN }}" }' if dsn else "{ type: sqlite }"
        (root / ".env").write_text(f"DSN={dsn}\n")
        project = PROJECT.replace("name: p", f"name: p{case.number}")
        (root / "lorebind.yaml").write_text(project.replace("CHECKPOINTER", place))
        scene = Scene(root, processes)
        at, moment = case.randrange(ITEMS + 1), case.random() * 0.02
        was_killed = scene.killed_after(at, moment, "run")
        reported, before = scene.reported(), Counter(scene.begun())
        if was_killed:
            assert scene.resumed() == [[2 * item for item in range(ITEMS)], ITEMS * (ITEMS - 1)]
        times = Counter(scene.begun())
        assert times.keys() == {"list", "last", *map(str, range(ITEMS))}
        twice = [name for name, many in times.items() if many > 1]
        assert max(times.values()) <= 2
        assert len(twice) <= WORKERS, twice
        assert all(before[name] for name in twice)
        paths = {f"all[{name}].one" if name.isdecimal() else name for name in twice}
        assert not paths & reported
        again[len(twice)] += 1
        shutil.rmtree(root)

    trials.run(f"kills of workflows {kind}", check, short=2, full=50)
    trials.figures.append(f"done again after a kill, {kind}: {sorted(again.items())}")
