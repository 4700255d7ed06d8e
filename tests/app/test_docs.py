"""All examples in the documentation are run, and their output is compared.

A page names the folder that it runs in: `<!-- run in examples/langchain -->` or
`<!-- run in an empty folder -->`; without that line it is the root of the clone.
`<!-- run in examples/workflows, after how-to/workflows.md -->` names a page that has to run first.
A block with a title is written to the file of that name.
`<!-- with PostgreSQL: DATABASE_URL -->` writes the DSN of a new database into `.env`.
Programs find the packages of an extra only if the page says `pip install "lorebind[EXTRA]"`.

`UPDATE_DOCS=1 pytest tests/app/test_docs.py` writes the actual output into the pages.

Embedding all pages of the quickstart takes a minute. Unless the tests are dense, only the pages
that its questions need are embedded, and counts of all pages are compared without the model.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from lorebind import Project
from lorebind_knowledge.embedders import local
from lorebind_knowledge.embedders.sparse import local as sparse
from lorebind_knowledge.records import SparseVector
from tests.app.doc_blocks import (
    Block,
    blocks,
    commands,
    dsn_variable_of,
    folder_of,
    in_background,
    pages,
    requirements_of,
    run,
    steady,
)
from tests.app.forked_python import ForkedPython
from tests.app.helpers import Cli
from tests.app.missing_packages import hide, missing_modules
from tests.density import DENSE
from tests.processes import run_program

ROOT = Path(__file__).resolve().parents[2]
UPDATE = bool(os.environ.get("UPDATE_DOCS"))

IGNORED = shutil.ignore_patterns(".lorebind", "chroma")
QUICKSTART = "examples/quickstart"
INGEST = "lorebind knowledge ingest fastapi_docs"
"""The command that counts the pages of the quickstart, in its folder."""
ALL = DENSE or UPDATE
ASKED_ABOUT = ("cors", "path-params", "request-files")
"""The quickstart pages that are present if not all of them are."""

PAGES = pages(ROOT)
"""All pages with blocks, in the order in which they run."""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the files of a fresh clone that the pages use, with nothing ingested yet."""
    folder = tmp_path_factory.mktemp("clone")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=IGNORED)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    for path in (folder / QUICKSTART / "docs").rglob("*.md"):
        if not ALL and path.stem not in ASKED_ABOUT:
            path.unlink()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def python() -> Iterator[ForkedPython]:
    """Return the runner for commands and programs."""
    forked = ForkedPython()
    yield forked
    forked.close()


@pytest.mark.skipif(ALL, reason="the command of the page itself shows it")
def test_all_of_the_quickstart_is_counted(empty_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ingest of all its pages prints the counts that its README shows."""
    monkeypatch.setattr(
        local, "run_graph", lambda _, rows: np.eye(len(rows), local.DIMENSION, dtype=np.float32)
    )
    terms = SparseVector(np.arange(3), np.ones(3, np.float32))
    monkeypatch.setattr(sparse, "_run", lambda *_: terms)
    shutil.copytree(ROOT / QUICKSTART, empty_cli.root / QUICKSTART, ignore=IGNORED)
    page = blocks(ROOT / QUICKSTART / "README.md")
    consoles = [block for block in page if block.language == "console"]
    counting = [
        command for block in consoles for command in commands(block) if command.line == INGEST
    ]
    assert len(counting) == 1
    printed = empty_cli(*shlex.split(INGEST)[1:], "--project", QUICKSTART).out
    assert steady(printed) == steady(counting[0].output)


def test_a_page_has_the_packages_that_it_says_to_install(
    python: ForkedPython, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs of a page can import these and the packages of the core, but no other extra's."""
    hide(missing_modules({"lorebind[office]"}), tmp_path / "missing")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "missing"))
    command = python.commands / "python"
    packages = [
        module
        for module in ("docx", "fastapi", "langchain", "openpyxl", "pypdfium2")
        if subprocess.run([command, "-c", f"import {module}"], check=False).returncode == 0
    ]
    assert packages == ["docx", "openpyxl", "pypdfium2"]


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page(
    page: str,
    clone: Path,
    python: ForkedPython,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each block runs with the packages that the page installs, and prints the page's output."""
    folder = folder_of(ROOT / page, clone)
    hide(missing_modules(requirements_of(ROOT / page, ROOT)), tmp_path / "missing")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "missing"))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # ours, which take half a second
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_asyncio.plugin,pytest_socket")
    if variable := dsn_variable_of(ROOT / page):
        (folder / ".env").write_text(f"{variable}={request.getfixturevalue('dsn')}\n")
    with ExitStack() as stack:
        _check_blocks(page, folder, python, stack)


def _check_blocks(
    page: str,
    folder: Path,
    python: ForkedPython,
    stack: ExitStack,
) -> None:
    for block in blocks(ROOT / page):
        place = f"{page}:{block.line}"
        if block.title:
            (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.title).write_text(block.text, encoding="utf-8")
            continue
        match block.language:
            case "console":
                _check_console(ROOT / page, block, folder, place, python, stack)
            case "python":
                _check_python(block, folder, place, python)
            case "yaml":
                _check_yaml(block, folder)
            case "sh":
                _check_make(block, place)
            case "text" | "mermaid":
                pass  # shown, not run
            case other:
                pytest.fail(f"{place}: no way to check a block of {other!r}")


def _check_console(
    page: Path,
    block: Block,
    folder: Path,
    place: str,
    python: ForkedPython,
    stack: ExitStack,
) -> None:
    """Commands in the background run to the end of the page; they print one line."""
    written: list[str] = []
    for command in commands(block):
        if command.line.endswith(" &"):
            printed = stack.enter_context(in_background(command.line, folder, python.commands))
        else:
            printed = run(command.line, folder, python.commands)
        written.append(f"$ {command.line}\n{printed.strip(chr(10))}\n")
        if not UPDATE:
            cut = steady if ALL else uncounted if command.line == INGEST else unmeasured
            assert cut(printed) == cut(command.output), f"{place}: $ {command.line}"
    if UPDATE:
        text = page.read_text(encoding="utf-8")
        updated = "".join(written)
        # The fence tells a block from a longer one that begins with the same command.
        page.write_text(text.replace(f"{block.text}```", f"{updated}```", 1), encoding="utf-8")


def unmeasured(output: str) -> str:
    """Remove the size of a prompt, because fewer pages lead to other last passages."""
    return re.sub(r"^Prompt: \d+ tokens", "Prompt: # tokens", steady(output), flags=re.MULTILINE)


def uncounted(output: str) -> str:
    """Also remove the numbers that count pages."""
    return re.sub(r"\d+( *)", "#", unmeasured(output))


def _check_python(block: Block, folder: Path, place: str, python: ForkedPython) -> None:
    code = block.text
    if (page := ROOT / place.partition(":")[0]).is_relative_to(ROOT / "integrations"):
        code = f"import sys; sys.path.append({str(page.parent)!r})\n{code}"  # as if installed
    strict = {**os.environ, "PYTHONWARNINGS": "error"}
    done = run_program(
        [python.commands / "python", "-c", code], cwd=folder, env=strict, timeout=300
    )
    assert done.returncode == 0, f"{place}:\n{done.stderr}"


def _check_yaml(block: Block, folder: Path) -> None:
    """Check that a YAML block is a valid project file if its variables are set."""
    path = folder / "shown" / "lorebind.yaml"
    path.parent.mkdir(exist_ok=True)
    names = re.findall(r"\.(?:env|secrets)\.(\w+)", block.text)
    (path.parent / ".env").write_text("".join(f"{name}=https://example.com\n" for name in names))
    path.write_text(block.text, encoding="utf-8")
    Project.load(path.parent).close()


def _check_make(block: Block, place: str) -> None:
    """Check that a `make` line names a target of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for line in block.text.splitlines():
        match = re.fullmatch(r"make ([\w-]+)(?: +#.*)?", line)
        assert match, f"{place}: {line!r} is not a make command"
        assert re.search(rf"^{match[1]}:", makefile, re.MULTILINE), f"{place}: no target {match[1]}"
