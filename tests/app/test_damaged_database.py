"""A database whose rows, vectors or manifest were damaged: each command says what is wrong."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

from lorebind import Project
from tests.bindings.helpers import write

from .damage import LOUD, QUIET, change
from .helpers import FILES

if TYPE_CHECKING:
    from pathlib import Path

    from .helpers import Cli, Done

QUERY = ["knowledge", "query", "docs", "-q", "rotate the keys"]
OTHERS = [["knowledge", "list"], ["knowledge", "plan"], ["doctor"], ["knowledge", "ingest"]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of the project, ingested."""
    root = tmp_path_factory.mktemp("whole")
    write(root, FILES)
    with Project.load(root) as project:
        project.ingest("docs")
        project.ingest("rules")
    return root / ".lorebind"


@pytest.mark.parametrize("way", [*LOUD, *QUIET])
def test_what_is_damaged_is_said(cli: Cli, whole: Path, way: str) -> None:
    """One line with what to do, an exit code of ours, and no answer that is not the right one."""
    shutil.copytree(whole, cli.root / ".lorebind")
    right = cli(*QUERY)
    assert right.code == 0
    change(cli.root / ".lorebind/lorebind.db", (LOUD | QUIET)[way])
    done = cli(*QUERY)
    if way in LOUD:
        assert (done.code, done.out) == (1, "")
    assert done.code or done.out == right.out
    said(done)
    other = [*LOUD, *QUIET].index(way) % 2
    for command in OTHERS[other::2]:
        said(cli(*command))


def said(done: Done) -> None:
    assert done.code in (0, 1), done
    assert "Traceback" not in done.err
    if done.err:
        assert done.err.count("\n") == 1, done
        assert re.search(r"reindex|knowledge ingest|move (it|the file|its database) away", done.err)
