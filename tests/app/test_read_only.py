"""A project on read-only storage: its index is searched, and no write is tried."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.processes import run_program

from .forked_python import ForkedPython
from .helpers import PROJECT, Cli, Done

Python = Callable[..., Done]
ReadOnly = Callable[..., Done]

NOTICE = "lorebind.db cannot be written here; it is opened read-only"
CLOSED = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import closed_folder
closed_folder.CLOSE(sys.argv.pop(1))
"""
COMMAND = """
from lorebind.cli import main
sys.argv[0] = "lorebind"
main()
"""


@pytest.fixture(scope="module", params=["mount_read_only", "obey_permissions"])
def closed(
    request: pytest.FixtureRequest, forked: ForkedPython, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Python]:
    """Return a folder, and a runner of code in a process that cannot write to it."""
    folder = tmp_path_factory.mktemp("closed")
    probe = folder / "probe"
    probe.mkdir(0o555)
    close = CLOSED.replace("CLOSE", request.param)

    def run(code: str, *arguments: str, **options: Any) -> Done:
        command = [forked.commands / "python", "-c", close + code, folder, *arguments]
        done = run_program(command, **options)
        return Done(done.returncode, done.stdout, done.stderr)

    if (done := run("")).code:
        assert "Error: [Errno " in done.err, done.err
        pytest.skip(f"not permitted here: {done.err}")
    assert run("open(sys.argv[1], 'w')", str(probe / "x")).code, "it could be written all the same"
    return folder, run


@pytest.fixture
def tmp_path(closed: tuple[Path, Python]) -> Iterator[Path]:
    """Return a project's folder within it."""
    with tempfile.TemporaryDirectory(dir=closed[0]) as folder:
        yield Path(folder)


@pytest.fixture
def read_only(closed: tuple[Path, Python]) -> Iterator[ReadOnly]:
    """Yield a runner of `lorebind` for folders that it cannot write to, though others may."""
    shut: list[Path] = []

    def run(folder: Path, *arguments: str) -> Done:
        shut.append(folder)
        for name in (folder, *folder.rglob("*")):
            name.chmod(name.stat().st_mode & ~0o222)
        return closed[1](COMMAND, *arguments, cwd=folder)

    yield run
    for folder in shut:
        for name in (folder, *folder.rglob("*")):
            name.chmod(name.stat().st_mode | 0o200)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "arguments",
    [("knowledge", "query", "docs", "-q", "rotate the keys"), ("knowledge", "list")],
    ids=" ".join,
)
def test_what_reads_works_as_before(
    ready_cli: Cli, read_only: ReadOnly, arguments: tuple[str, ...]
) -> None:
    """The output is the same, a note says once that nothing can be changed, and nothing changes."""
    as_before = ready_cli(*arguments)
    before = files(ready_cli.root)
    done = read_only(ready_cli.root, *arguments)
    assert (done.code, done.out) == (as_before.code, as_before.out)
    assert done.err.count("\n") == 1
    assert NOTICE in done.err
    assert files(ready_cli.root) == before


def test_an_ingest_is_refused(ready_cli: Cli, read_only: ReadOnly) -> None:
    """The message names the location that is not writable, and a fix."""
    done = read_only(ready_cli.root, "knowledge", "ingest", "docs")
    assert done.code == 1
    assert "lorebind.db: cannot be written here; make its folder writable" in done.err
    assert "Traceback" not in done.err


def test_without_an_index(cli: Cli, read_only: ReadOnly) -> None:
    """Without an index, the message says that nothing is ingested."""
    done = read_only(cli.root, "knowledge", "query", "docs", "-q", "keys")
    assert done.code == 1
    assert "lorebind knowledge ingest docs" in done.err


def test_what_is_ingested_on_start(ready_cli: Cli, read_only: ReadOnly) -> None:
    """A knowledge base with `ingest: on_start` is searched as it is."""
    on_start = PROJECT.replace("- id: docs\n    desc", "- id: docs\n    ingest: on_start\n    desc")
    ready_cli.write({"lorebind.yaml": on_start, "docs/new.md": "# New\n\nThis came later.\n"})
    done = read_only(ready_cli.root, "knowledge", "query", "docs", "-q", "rotate the keys")
    assert done.code == 0
    assert "docs/keys.md" in done.out
    assert "docs/new.md" not in done.out


def test_ask(ready_cli: Cli, read_only: ReadOnly) -> None:
    """A question is answered from the existing index."""
    done = read_only(ready_cli.root, "ask", ".", "How do I rotate the keys?")
    assert done.code == 0, done
    assert "Rotate the keys" in done.out
    assert done.err.count("\n") == 1
    assert NOTICE in done.err


def test_beside_a_process_that_writes(ready_cli: Cli, read_only: ReadOnly) -> None:
    """Changes that a process has committed, but not moved into the file, are found too."""
    with closing(sqlite3.connect(ready_cli.root / ".lorebind/lorebind.db")) as writer:
        writer.execute(
            "update catalog_chunks set text = 'Moved.' where version in"
            " (select version from catalog_versions where uri = 'docs/keys.md')"
        )
        writer.commit()
        query = ("knowledge", "query", "docs", "-q", "rotate the keys", "--strategy", "similarity")
        done = read_only(ready_cli.root, *query)
    assert done.code == 0, done
    assert "Moved." in done.out
