"""The same commands in a folder and on a server: their output and exit codes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.app import triage
from tests.app.helpers import FILES, Cli, Done
from tests.bindings.helpers import write

from .conftest import Process, serving

OWN = """\
id: own
input: { folder: {}, limit: { type: integer, default: 3 } }
knowledge_bases:
  - { id: birds, sources: [{ type: markdown_glob, path: "{{ .workflow.input.folder }}/*.md" }] }
knowledge: [{ id: birds, top_k: 2 }]
tasks: [{ id: tell, prompt: owls at night }, { id: free, prompt: owls, knowledge: [] }]
"""

PROJECT = {
    **FILES,
    **{name: text for name, text in triage.FILES.items() if name != "lorebind.yaml"},
    "workflows/own.yaml": OWN,
    "own/owls.md": "# Owls\n\nOwls fly at night.\n",
    "more.md": "# More\n\nMore is said here about old keys.\n",
    "less.txt": "Less is said here.\n",
    "binary.md": "a\0b",
    "empty.txt": "",
}

STEPS: list[str | list[str] | dict[str, str]] = [
    # Nothing is ingested yet.
    "knowledge list",
    "knowledge list -o json",
    "query docs -q keys",
    "query docs -q keys --explain -o json",
    "knowledge documents docs",
    "knowledge chunks docs docs/keys.md",
    "knowledge stats docs",
    "ingest docs --only-failed",
    "knowledge plan",
    "knowledge plan docs -o json",
    "knowledge plan docs --strategy replace",
    # Ingests.
    "ingest",
    "ingest birds -w own -i folder=own",
    "ingest -o yaml",
    "ingest docs",
    "ingest docs --only-failed -o json",
    "ingest docs --strategy replace",
    "ingest docs --strategy replace --only-failed",
    "ingest birds -w own",
    "ingest birds -w own -i folder=own -i limit=no",
    'ingest birds -w own -i folder=own -i limit="no"',
    "ingest birds -w own -i folder=own -i else=1",
    "ingest docs -i folder=own",
    "ingest docs -w own -i folder",
    "knowledge reindex docs",
    "knowledge reindex docs -o json",
    {"docs/new.md": "# New\n\nNew keys are longer.\n", "docs/bad.md": "a\0b", "docs/none.md": ""},
    "knowledge plan docs",
    "ingest docs",
    "ingest docs --only-failed",
    "knowledge reindex docs",
    "knowledge documents docs",
    "knowledge documents docs --state failed -o json",
    "knowledge documents docs --state broken",
    "knowledge documents docs --long -q .MD --format markdown",
    "knowledge documents docs --filter team=it --filter year=2026 -o json",
    'knowledge documents docs --filter team={"$in":1}',
    {"docs/bad.md": "# Bad\n\nNow it is good.\n"},
    "ingest docs --only-failed",
    # Declarations and contents.
    "knowledge list",
    "knowledge list -o json",
    "knowledge get docs",
    "knowledge get birds -w own -o json",
    "knowledge get docs -w own",
    "knowledge get birds",
    "knowledge get dosc",
    "knowledge get docs -w none",
    "knowledge export",
    "knowledge export -o json",
    "knowledge export birds -w own",
    "knowledge export -w own",
    "knowledge export ruls",
    "knowledge documents docs -o json",
    "knowledge documents birds -w own",
    "knowledge documents dosc",
    "knowledge chunks docs docs/keys.md",
    "knowledge chunks docs docs/keys.md -o json",
    "knowledge chunks docs docs/kesy.md",
    "knowledge chunks dosc docs/keys.md",
    "knowledge stats docs",
    "knowledge stats docs -o json",
    "knowledge stats birds -w own",
    "knowledge stats none",
    # Exact words, lines and metadata.
    "knowledge find docs keys",
    "knowledge find docs KEYS --limit 1 -o json",
    "knowledge find docs [kK]eys? --regex --document docs/keys.md",
    "knowledge find docs (a --regex",
    'knowledge find docs keys --filter uri={"$in":["docs/keys.md"]} -o json',
    "knowledge find docs keys --filter uri=docs/none.md",
    "knowledge find docs nothing",
    "knowledge find docs keys --document docs/kesy.md",
    "knowledge find dosc keys",
    "knowledge find birds owls -w own",
    ["knowledge", "find", "docs", ""],
    "knowledge fetch docs docs/keys.md",
    "knowledge fetch docs docs/keys.md --lines 1-2 -o json",
    "knowledge fetch docs docs/keys.md --lines 2-",
    "knowledge fetch docs docs/keys.md --lines 99",
    "knowledge fetch docs docs/keys.md --filter uri=docs/none.md",
    "knowledge fetch docs docs/keys.md --lines 0-2",
    "knowledge fetch docs docs/kesy.md",
    "knowledge fetch birds own/owls.md -w own",
    "knowledge fields docs",
    "knowledge fields docs -o json",
    "knowledge fields birds -w own",
    "knowledge skipped docs",
    "knowledge skipped birds -w own -o json",
    # Searches.
    "query docs -q keys",
    "query docs -q keys -o json",
    "query docs -q keys -o yaml",
    "query docs -q keys --explain",
    "query docs -q keys --explain -o json",
    "query docs -q keys --top-k 1 --strategy similarity --min-score 0.1 --explain",
    "query docs -q keys --filter team=ops --explain",
    "query docs -q keys --filter team=none",
    "query docs -q keys --filter none=1",
    "query docs -q keys --filter team",
    "query docs -q keys --min-score 0.99",
    "query docs -q keys --top-k 0",
    "query docs -q keys --top-k 99",
    "query docs -q keys --min-score 2",
    "query docs -q keys --strategy simlarity",
    "query docs -q keys --strategy rerank",
    "query docs -q=",
    ["query", "docs", "-q", " "],
    "query dosc -q keys",
    "query birds -w own -q owls",
    "query docs rules -q keys",
    "query docs rules keys --explain -o json",
    "query keys -o json",
    "query docs",
    "query",
    "query owls --workflow own --task tell",
    "query owls --workflow own --task free",
    "query owls --agent none",
    "query birds -q owls",
    "query docs -q keys --tenant other",
    "knowledge list --tenant other -o json",
    "ingest rules --tenant other",
    # Bindings.
    "bindings explain",
    "bindings explain -o json",
    "bindings explain --workflow own --task tell",
    "bindings explain --workflow own -o yaml",
    "bindings explain --workflow own --task free",
    "bindings explain --workflow own --task free -o json",
    "bindings explain --workflow onw",
    "bindings explain --task tell",
    # Adding and deleting.
    "knowledge add docs {here}/more.md",
    "knowledge add docs {here}/more.md {here}/less.txt -o json",
    "knowledge add docs {here}/binary.md",
    "knowledge add docs {here}/empty.txt",
    "knowledge add docs {here}/none.md",
    "knowledge add dosc {here}/more.md",
    "knowledge documents docs",
    "knowledge exclude docs docs/keys.md",
    "knowledge documents docs",
    "query docs -q keys --why docs/keys.md",
    "knowledge fetch docs docs/keys.md",
    "knowledge exclude docs docs/kys.md",
    "knowledge retry docs docs/keys.md -o json",
    "knowledge retry docs docs/kys.md",
    "knowledge include docs docs/keys.md -o json",
    "knowledge delete docs added:{here}/less.txt",
    "knowledge delete docs added:{here}/less.txt",
    "knowledge delete docs docs/keys.md",
    "knowledge delete docs --filter team=ops --dry-run",
    "knowledge delete docs --filter team=ops --yes",
    "knowledge delete docs --filter title=More --dry-run",
    "knowledge delete docs --filter title=More",
    "knowledge delete docs --filter team",
    "knowledge delete docs --filter title=None --yes -o json",
    "knowledge delete docs --dry-run",
    "knowledge delete docs docs/keys.md --filter team=ops",
    "knowledge delete docs added:{here}/more.md -o json",
    "knowledge delete docs",
    "knowledge delete docs --yes",
    "knowledge delete dosc --yes",
    "knowledge stats docs",
    "query docs -q keys",
    # Packs.
    "knowledge pack rules -o {here}/kb.lorebind",
    "ingest rules",
    "knowledge pack rules -o {here}/kb.lorebind",
    "knowledge pack rules -o {here}/none/kb.lorebind",
    "knowledge pack ruls -o {here}/kb.lorebind",
    "knowledge unpack {here}/kb.lorebind",
    "knowledge unpack {here}/kb.lorebind -o json",
    "knowledge unpack {here}/kb.lorebind docs",
    "knowledge unpack {here}/more.md",
    "query docs -q rules",
    "knowledge rollback docs -o json",
    "query docs -q rules",
    "knowledge stats docs",
    "knowledge rollback docs --to 7",
    "knowledge rollback rules",
    "ingest docs --allow-mass-delete",
    "knowledge purge",
    "knowledge purge -o json",
    "knowledge purge --yes",
    "ingest docs --allow-mass-delete",
    # Workflows.
    "workflow list",
    "workflow list -o json",
    "workflow show triage",
    "workflow show triage -o json",
    "workflow show triage --format mermaid",
    "workflow show triage --format mermaid -o json",
    "workflow show triag",
    "run reply -i question=keys",
    "run reply -i question=keys -i limit=7 -o json --thread t0",
    "run reply -i question=keys -i limit=x",
    "run reply -i question=keys -i none=1",
    "run reply --thread t1",
    "run replay -i question=keys",
    "run reply -i question=keys --stream --thread t2",
    "run reply -i question=keys --interrupt-before say --thread t3",
    "run reply -i question=keys --interrupt-before sya --thread t4",
    "run reply --thread t3 --resume",
    "run reply --thread t3 --resume",
    "run reply --thread t9 --resume",
    "run triage -i ticket=refund --thread t1",
    "run triage -i ticket=refund --thread t1",
    "run triage --thread t1 --answer approve=1",
    'run triage --thread t1 --answer approve={"ok":true}',
    "run strict -i ticket=boom --thread t1",
    "run strict -i ticket=boom --thread t2 -o json",
    "run triage -i ticket=refund --thread customer/42",
    "run triage --thread customer/42 --resume",
    "workflow history triage -t customer/42",
    "workflow replay triage -t customer/42 -s 1",
    "workflow threads triage",
    "workflow threads strict -o json",
    "workflow threads none",
    "workflow history triage -t t1",
    "workflow history triage -t none",
    "workflow replay triage -t t1 -s 1",
    "workflow replay triage -t t1 -s 99",
]


class Pair:
    """Two equal projects: one in a folder, one on a server."""

    def __init__(self, folder: Path, server: Process, served: Path) -> None:
        self.folder, self.server, self.served = folder, server, served
        self.url = f"unix:{server.socket}"

    def write(self, files: dict[str, str]) -> None:
        write(self.folder, files)
        write(self.served, files)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = write(tmp_path_factory.mktemp("local") / "shop", PROJECT)
    served = tmp_path_factory.mktemp("served") / "shop"
    shutil.copytree(folder, served)
    with serving(served) as server:
        yield Pair(folder, server, served)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Return the command line in a folder without a project."""
    return Cli(tmp_path, monkeypatch, capsys)


def masked(done: Done, *folders: Path) -> Done:
    """Return the result of a command, without values that differ between runs."""
    return replace(done, out=_masked(done.out, *folders), err=_masked(done.err, *folders))


def _masked(text: str, *folders: Path) -> str:
    for folder in folders:
        text = text.replace(str(folder), "FOLDER")
    text = re.sub(r" --server [^\s`]+", "", text)
    text = re.sub(r"\b([0-9a-f]{32}|[0-9a-f]{12})\b", "ID", text)
    text = re.sub(r"\b\d+\.\d+ s\b", "0 s", text)
    text = re.sub(r" +\d+\.\d\d  ", "  0.00  ", text)  # the seconds of a history
    text = re.sub(r" \(\d+/s\)", "", text)
    text = re.sub(r"\d{4}-\d\d-\d\d[ T][\d:.+]+", "TIME", text)
    text = re.sub(r'(?<="updated_at": )[\d.]+', "#", text)
    return re.sub(r'("?(?:seconds|started_at|ended_at)"?: )[\d.e-]+', r"\1 0", text)


def words(step: str | list[str], here: Path) -> list[str]:
    parts = step.split() if isinstance(step, str) else step
    return [part.replace("{here}", str(here)) for part in parts]


@pytest.mark.parametrize("number", range(len(STEPS)), ids=lambda number: str(STEPS[number])[:60])
def test_the_same_as_in_a_folder(cli: Cli, pair: Pair, number: int) -> None:
    """Each command prints the same to the same stream, and exits with the same code."""
    step = STEPS[number]
    if isinstance(step, dict):
        pair.write(step)
        return
    command = words(step, pair.folder)
    cli.move_to(pair.folder)
    here = masked(cli(*command), pair.folder)
    cli.move_to(cli.root)
    there = masked(cli(*command, "--server", pair.url), pair.folder, pair.served)
    assert there == here


def test_a_pack_cannot_make_a_server_read_files(cli: Cli, pair: Pair) -> None:
    """A source of a pack that would read files of the server is refused."""
    cli.move_to(pair.folder)
    cli("ingest", "rules")
    assert cli("knowledge", "pack", "rules", "-o", "rules.lorebind").code == 0
    refused = cli("knowledge", "unpack", "rules.lorebind", "copied", "--server", pair.url)
    assert refused.code == 2
    assert "source type 'markdown_glob' is not possible here" in refused.err
