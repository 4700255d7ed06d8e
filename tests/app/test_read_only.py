"""A project on read-only storage: its index is searched, and no write is tried."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from .forked_python import OF_COMMANDS, ForkedPython
from .helpers import PROJECT, Cli, Done, run_forked

ReadOnly = Callable[..., Done]

MOUNT = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && cd "$0" && exec "$@"'
NOTICE = "lorebind.db cannot be written here; it is opened read-only"


def in_a_mount(folder: Path) -> list[str]:
    """Return a command prefix that mounts the folder read-only in a namespace."""
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNT, str(folder)]


def without_rights(_: Path) -> list[str]:
    """Return a command prefix that drops root's right to ignore permissions."""
    rights = "-dac_override,-dac_read_search"
    return ["setpriv", "--bounding-set", rights, "--inh-caps", rights] if os.geteuid() == 0 else []


@pytest.fixture(scope="module", params=[in_a_mount, without_rights])
def closed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, ForkedPython]]:
    """Yield a folder, and a runner of commands that cannot write to it."""
    around: Callable[[Path], list[str]] = request.param
    folder = tmp_path_factory.mktemp("closed")
    probe = folder / "probe"
    probe.mkdir(0o555)
    command = around(folder)
    if command and shutil.which(command[0]) is None:
        pytest.skip(f"there is no {command[0]} here")
    done = subprocess.run([*command, "true"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"not permitted here: {done.stderr!r}")
    forked = ForkedPython(libraries=OF_COMMANDS, around=command)
    try:
        touch = [forked.commands / "python", "-c", f"open({str(probe / 'x')!r}, 'w')"]
        touched = subprocess.run(touch, capture_output=True, check=False)
        assert touched.returncode, "it could be written all the same"
        yield folder, forked
    finally:
        forked.close()


@pytest.fixture
def tmp_path(closed: tuple[Path, ForkedPython]) -> Iterator[Path]:
    """Return a project's folder within it."""
    with tempfile.TemporaryDirectory(dir=closed[0]) as folder:
        yield Path(folder)


@pytest.fixture
def read_only(closed: tuple[Path, ForkedPython]) -> Iterator[ReadOnly]:
    """Yield a runner of `lorebind` for folders that it cannot write to, though others may."""
    shut: list[Path] = []

    def run(folder: Path, *arguments: str) -> Done:
        shut.append(folder)
        for name in (folder, *folder.rglob("*")):
            name.chmod(name.stat().st_mode & ~0o222)
        return run_forked(closed[1], folder, *arguments)

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
