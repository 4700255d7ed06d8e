"""A database with damaged rows, vectors or manifest: each command reports the damage."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.bindings.helpers import write
from tests.density import DENSE

from .damage import LOUD, QUIET, change
from .forked_python import ForkedPython
from .helpers import FILES, Cli, Done, run_forked

QUERY = ["knowledge", "query", "docs", "-q", "rotate the keys"]
OTHERS = [["knowledge", "list"], ["knowledge", "plan"], ["doctor"], ["knowledge", "ingest"]]


@pytest.fixture(scope="module")
def answer(ingested: Path, tmp_path_factory: pytest.TempPathFactory, forked: ForkedPython) -> str:
    """Return the output of the query before anything is damaged."""
    root = write(tmp_path_factory.mktemp("whole"), FILES)
    shutil.copytree(ingested, root / ".lorebind")
    done = run_forked(forked, root, *QUERY)
    assert done.code == 0
    return done.out


@pytest.mark.parametrize("way", [*LOUD, *QUIET])
def test_what_is_damaged_is_said(ready_cli: Cli, answer: str, way: str) -> None:
    """Damage is one line with a suggested fix and a defined exit code, never a wrong answer."""
    change(ready_cli.root / ".lorebind/lorebind.db", (LOUD | QUIET)[way])
    done = ready_cli(*QUERY)
    if way in LOUD:
        assert (done.code, done.out) == (1, "")
    else:
        assert (done.code, done.out) == (0, answer)
    check_message(done)
    turn = [*LOUD, *QUIET].index(way) % len(OTHERS)
    for command in OTHERS if DENSE else [OTHERS[turn]]:
        check_message(ready_cli(*command))


def check_message(done: Done) -> None:
    assert done.code in (0, 1), done
    assert "Traceback" not in done.err
    lines = done.err.splitlines()
    assert len(lines) < 3, done  # an ingest of all knowledge bases reports each of the two
    for line in lines:
        assert line.startswith("lorebind: "), done
        assert re.search(r"reindex|knowledge ingest|move (it|the file|its database) away", line)
