"""The fenced blocks of a Markdown page, and the output of their commands."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.app.missing_packages import to_install

_FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"((?:.*\\\n)*.*)\n((?s:.*))")
"""A command, whose lines end with a backslash except the last, and its output."""
_RUN_IN = re.compile(r"^<!-- run in (an empty folder|\S+?)(?:, after (\S+))? -->$", re.MULTILINE)
_WITH_POSTGRES = re.compile(r"^<!-- with PostgreSQL: (\w+) -->$", re.MULTILINE)
_NOT_RUN = (
    *("examples/quickstart/docs/", "tests/knowledge/pages/"),
    "docs/index.md",  # the README again
)
# Values that differ between runs and machines: times, rates, and the last digits of scores, which
# depend on the processor's arithmetic.
_VOLATILE = (
    (re.compile(r"\d+\.\d+ ?s\b"), "# s"),
    (re.compile(r"\(\d+/s\)"), "(#/s)"),
    (re.compile(r"\d+\.\d +\d+\.\d *$", re.MULTILINE), "# #"),  # the latencies of an evaluation
    (re.compile(r"\b0\.(\d)\d+\b"), r"0.\1#"),
)


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    language: str
    text: str
    line: int
    title: str = ""
    """The file that the reader writes; empty for a block that runs by itself."""


@dataclass(frozen=True)
class Command:
    """A command of a console block, and its output on the page."""

    line: str
    output: str


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(fence[1], fence[3], text.count("\n", 0, fence.start()) + 1, fence[2] or "")
        for fence in _FENCE.finditer(text)
    ]


def pages(root: Path) -> list[str]:
    """Find the pages that have blocks, each behind the page that has to run before it."""
    paths = (path.relative_to(root) for path in sorted(root.rglob("*.md")))
    visible = (path for path in paths if not any(part.startswith(".") for part in path.parts))
    ours = [name for name in map(str, visible) if not name.startswith(_NOT_RUN)]
    ordered = [name for name in ours if blocks(root / name)]
    for name in list(ordered):
        run_in = _RUN_IN.search((root / name).read_text(encoding="utf-8"))
        if run_in and run_in[2]:
            ordered.remove(name)
            ordered.insert(ordered.index(f"docs/{run_in[2]}") + 1, name)
    return ordered


def folder_of(page: Path, clone: Path) -> Path:
    """Return the folder of a clone in which the commands of a page run."""
    run_in = _RUN_IN.search(page.read_text(encoding="utf-8"))
    if run_in is None:
        return clone
    if run_in[1] != "an empty folder":
        return clone / run_in[1]
    name = page.parent.name if page.stem == "index" else page.stem
    folder = clone / "empty" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def dsn_variable_of(page: Path) -> str | None:
    """Return the variable that a page expects to hold the DSN of a PostgreSQL database."""
    match = _WITH_POSTGRES.search(page.read_text(encoding="utf-8"))
    return match[1] if match else None


def requirements_of(page: Path, root: Path) -> set[str]:
    """Return what a page, or one that has to run before it, says to install."""
    text = page.read_text(encoding="utf-8")
    run_in = _RUN_IN.search(text)
    before = requirements_of(root / "docs" / run_in[2], root) if run_in and run_in[2] else set()
    return before | to_install(text)


def commands(block: Block) -> list[Command]:
    """Return the `$ …` lines of a console block, each with the lines below it."""
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not parts[0].strip(), f"output before the first command: {parts[0]!r}"
    return [Command(*_COMMAND.fullmatch(part).groups()) for part in parts[1:]]


def run(line: str, folder: Path, *found_first: Path) -> str:
    """Run a command with the programs of `found_first` first, and return all its output."""
    folders = [*map(str, found_first), str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {**os.environ, "PATH": os.pathsep.join(folders)}
    done = subprocess.run(
        line,
        shell=True,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return re.sub(r"^progress: .*\n", "", done.stdout, flags=re.MULTILINE)  # of slow machines


@contextmanager
def in_background(line: str, folder: Path, *found_first: Path) -> Iterator[str]:
    """Run a command while the block runs, and yield the first line that it prints."""
    folders = [*map(str, found_first), str(Path(sys.executable).parent), os.environ["PATH"]]
    path = os.pathsep.join(folders)
    with subprocess.Popen(
        shlex.split(line.removesuffix(" &")),
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline()
        finally:
            process.terminate()


def steady(output: str) -> str:
    """Replace the parts of an output that may differ."""
    for pattern, replacement in _VOLATILE:
        output = pattern.sub(replacement, output)
    return output.strip("\n")
