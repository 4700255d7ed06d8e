"""Concurrent `apply` calls, some of them killed: nothing that was reported as applied is lost."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from lorebind_config.editing.applying import apply_resources
from lorebind_config.reading.loading import load_project

from .trials import Trials

PROJECT = """\
# kept
name: shop
vector_dbs:
  - { id: first, type: memory }  # kept too
knowledge_bases: []
"""

# Each line of output names an applied resource; before the Nth call the process exits as if killed.
APPLYING = """\
import os, sys
import lorebind
from lorebind_config.editing.applying import apply_resources

folder, name, count, last = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
calls = 0

def ended(frame, event, argument):
    global calls
    calls += event in ("call", "c_call")
    if calls == last:
        os._exit(9)

apply_resources(folder, "vector_dbs: []", name, dry_run=True)
print("ready", flush=True)
sys.stdin.readline()
sys.setprofile(ended if last else None)
for number in range(count):
    apply_resources(folder, f"vector_dbs: [{{id: {name}-{number}, type: memory}}]", name)
    os.write(1, f"{name}-{number}\\n".encode())
"""


def test_applies_at_once_lose_nothing(tmp_path: Path, trials: Trials) -> None:
    """The file is valid and has everything that was reported; its folder has no other files."""

    def check(case: random.Random) -> None:
        folder = tmp_path / str(case.random())
        folder.mkdir()
        file = folder / "lorebind.yaml"
        file.write_text(PROJECT)
        count = case.randint(2, 4)
        last = [0, *(case.choice([0, case.randint(1, 15_000 * count)]) for _ in range(3))]
        done, codes = _apply_at_once(folder, count, last)
        assert all(code in (0, 9 if end else 0) for code, end in zip(codes, last, strict=True))
        apply_resources(folder, "vector_dbs: [{id: first, type: memory}]", "afterwards")
        there = {vector_db.id for vector_db in load_project(folder).project.vector_dbs}
        assert done <= there, (last, done - there)
        assert len(done) >= count
        assert "# kept\n" in file.read_text()
        assert "# kept too\n" in file.read_text()
        assert os.listdir(folder) == ["lorebind.yaml"]

    trials.run("applies at once lose nothing", check, short=1, full=24)


def _apply_at_once(folder: Path, count: int, last: list[int]) -> tuple[set[str], list[int]]:
    """Start processes at the same time; return what they applied, and their exit codes."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", APPLYING, folder, f"p{number}", str(count), str(end)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number, end in enumerate(last)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    return set("".join(outputs).split()), [process.returncode for process in processes]
