"""Everything that the documentation shows is run, and prints what it says.

`UPDATE_DOCS=1 pytest tests/app/test_docs.py` writes what was printed into the pages.

Embedding all pages of the quickstart takes a minute. Where tests are not dense it has only those
that its questions are about, and what is counted of all of them is compared without the model.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from lorebind import Project
from lorebind_knowledge.embedders import local
from tests.app.doc_blocks import Block, blocks, commands, in_background, run, steady
from tests.app.forked_python import ForkedPython
from tests.density import DENSE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.app.helpers import Cli

ROOT = Path(__file__).resolve().parents[2]
UPDATE = bool(os.environ.get("UPDATE_DOCS"))

PAGES = {
    "README.md": ".",
    "CONTRIBUTING.md": ".",
    "docs/comparison.md": ".",
    "docs/embedders.md": ".",
    "docs/extending.md": "examples/extending",
    "docs/langchain.md": "examples/langchain",
    "docs/migration.md": ".",
    "docs/operating.md": "examples/extending",
    "docs/reference/yaml.md": ".",
    "docs/search.md": ".",
    "docs/sources.md": ".",
    "docs/trust.md": "examples/extending",
    "docs/vector-databases.md": "examples/langchain",
    "docs/workflows.md": "examples/workflows",
    "examples/adopting/README.md": "examples/adopting",
    "examples/audit/README.md": "examples/audit",
    "examples/quickstart/README.md": "examples/quickstart",
    "examples/support/README.md": "examples/support",
    # After the page of the same folder that shows its first ingest.
    "docs/server.md": "examples/workflows",
}
"""Every page with blocks, and the folder its commands are run in."""

IGNORED = shutil.ignore_patterns(".lorebind", "chroma")
QUICKSTART = "examples/quickstart"
INGEST = f"lorebind knowledge ingest fastapi_docs --project {QUICKSTART}"
ASK = "lorebind ask "
PASSAGES = "Passages of "
"""Where that command has counted all that it counts."""
ALL = DENSE or UPDATE
ASKED_ABOUT = (
    *("cors", "metadata", "path-params", "path-params-numeric-validations", "query-params"),
    *("extra-data-types", "request-files", "request-forms-and-files"),
    *("configure-swagger-ui", "custom-docs-ui-assets", "extending-openapi"),
)
"""The pages of the quickstart that are there where not all are."""

_NOT_OURS = ("examples/quickstart/docs/", "tests/knowledge/pages/")


def test_every_page_with_blocks_is_run() -> None:
    """No page of ours shows a block that these tests do not know of."""
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*.md"))
    visible = (path for path in found if not any(part.startswith(".") for part in path.parts))
    ours = [name for name in map(str, visible) if not name.startswith(_NOT_OURS)]
    assert {name for name in ours if blocks(ROOT / name)} <= set(PAGES)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The files of a fresh clone that the pages speak of, with nothing ingested yet."""
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
def shell_python() -> Iterator[ForkedPython]:
    """What commands run."""
    forked = ForkedPython()
    yield forked
    forked.close()


@pytest.fixture(scope="module")
def strict_python() -> Iterator[ForkedPython]:
    """What blocks of Python run in, where warnings are errors."""
    forked = ForkedPython("-W", "error")
    yield forked
    forked.close()


@pytest.mark.skipif(ALL, reason="the README's own commands show it")
def test_all_of_the_quickstart_is_counted(empty_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all its pages, ingested by a model that says nothing, the README's counts are printed."""
    monkeypatch.setattr(
        local, "run_graph", lambda _, rows: np.eye(len(rows), local.DIMENSION, dtype=np.float32)
    )
    shutil.copytree(ROOT / QUICKSTART, empty_cli.root / QUICKSTART, ignore=IGNORED)
    counting = [
        command
        for block in blocks(ROOT / "README.md")
        for command in (commands(block) if block.language == "console" else [])
        if counts_pages(command.line)
    ]
    assert len(counting) == 3
    for command in counting:
        printed = empty_cli(*shlex.split(command.line)[1:]).out
        assert counts(printed) == counts(command.output)


def counts_pages(line: str) -> bool:
    """Whether a command prints how many pages of the quickstart there are."""
    return line == INGEST or line.startswith(ASK + QUICKSTART)


def counts(output: str) -> str:
    """What is printed of an ingest, without the passages that may follow."""
    return steady(output).partition(PASSAGES)[0]


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page(
    page: str, clone: Path, shell_python: ForkedPython, strict_python: ForkedPython
) -> None:
    """Each block runs, in order; each command prints what stands below it."""
    folder = clone / PAGES[page]
    with ExitStack() as stack:
        _check_blocks(page, folder, shell_python, strict_python, stack)


def _check_blocks(
    page: str,
    folder: Path,
    shell_python: ForkedPython,
    strict_python: ForkedPython,
    stack: ExitStack,
) -> None:
    for block in blocks(ROOT / page):
        place = f"{page}:{block.line}"
        match block.language:
            case "console":
                _check_console(ROOT / page, block, folder, place, shell_python, stack)
            case "python":
                _check_python(block, folder, place, strict_python)
            case "yaml":
                _check_yaml(block, folder)
            case "sh":
                _check_make(block, place)
            case "text":
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
            printed = stack.enter_context(in_background(command.line, folder))
        else:
            printed = run(command.line, folder, python.commands)
        written.append(f"$ {command.line}\n{printed.strip(chr(10))}\n")
        if not UPDATE:
            cut = steady if ALL else uncounted if counts_pages(command.line) else unmeasured
            assert cut(printed) == cut(command.output), f"{place}: $ {command.line}"
    if UPDATE:
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace(block.text, "".join(written), 1), encoding="utf-8")


def unmeasured(output: str) -> str:
    """An output without the length of a prompt, whose last passages are others of fewer pages."""
    return re.sub(r"^Prompt: \d+ tokens", "Prompt: # tokens", steady(output), flags=re.MULTILINE)


def uncounted(output: str) -> str:
    """An output without the numbers that count pages either."""
    counted, *passages = unmeasured(output).partition(PASSAGES)
    return "".join([re.sub(r"\d+( *)", "#", counted), *passages])


def _check_python(block: Block, folder: Path, place: str, python: ForkedPython) -> None:
    done = subprocess.run(
        [python.commands / "python", "-c", block.text],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{place}:\n{done.stderr}"


def _check_yaml(block: Block, folder: Path) -> None:
    """A YAML block is a valid project file, where the variables that it names are set."""
    path = folder / "shown" / "lorebind.yaml"
    path.parent.mkdir(exist_ok=True)
    names = re.findall(r"\.(?:env|secrets)\.(\w+)", block.text)
    (path.parent / ".env").write_text("".join(f"{name}=https://example.com\n" for name in names))
    path.write_text(block.text, encoding="utf-8")
    Project.load(path.parent).close()


def _check_make(block: Block, place: str) -> None:
    """A `make` line names a target that the Makefile has."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for line in block.text.splitlines():
        found = re.fullmatch(r"make (\w+)(?: +#.*)?", line)
        assert found, f"{place}: {line!r} is not a make command"
        assert re.search(rf"^{found[1]}:", makefile, re.MULTILINE), f"{place}: no target {found[1]}"
