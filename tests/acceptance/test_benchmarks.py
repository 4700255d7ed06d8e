"""Each benchmark runs once, with tiny sizes, so that a rename cannot break it unnoticed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.processes import run_program

from ..app.forked_python import CONSTANTS, ForkedPython

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
RUNS = {
    "against": "--against {root} --sizes 100 --rounds 1 --questions 2 --dsn {database}",
    "events": "--rounds 1 --events 100",
    "extractors": "{folder}",
    "filters": "--passages 20 --rounds 1 --dsn {dsn}",
    "follow_ups": "--embedder hashing --every 7",
    "ingest": "{folder} --rounds 1 --files 10",
    "large": "--sizes 200 --questions 2 --add 10 --rest 20 --dsn {dsn}",
    "latency": "--sizes 200 --rounds 1 --questions 2",
    "loading": "--rounds 1 --pages 2",
    "loop_stall": "--rounds 1 --askers 2 --files 5",
    "memory": "0.02 0.04 --file-size 1000",
    "packing": "--passages 40 --small 20 --dsn {dsn}",
    "pgvector": "--rounds 1 --rows 20 --batches 10 --vectors 100 --queries 2 --dsn {dsn}",
    "prompts": "--rounds 1 --texts 4 --pages 1",
    "readers": "--seconds 1 --readers 1",
    "recency": "{folder}",
    "retrieval": "{folder} {folder}/pages",
    "scaling": "--workers 1 --most 1x2 --chunks 16 --batch 8 --seconds 0 --dsn {dsn}",
    "server": "--clients 2 --seconds 0.5 --documents 20 --answers 1",
    "tables": "--formats md,csv,pdf --questions 2 --embedder hashing",
    "workflows": "--rounds 1",
}
"""The arguments of each benchmark."""
PARTS = {"guards", "nearest", "peers", "server_answers", "table_documents"}
"""Modules that benchmarks import."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder that is a test collection, documentation, and tests of trafilatura."""
    names = [f"{letter}{number}" for letter in "abcd" for number in range(3)]
    asked = names[::5]
    texts = [f"{name} is about the letters and their numbers, as all others." for name in names]
    lines = {
        "corpus.jsonl": [
            json.dumps({"id": name, "title": name, "text": text})
            for name, text in zip(names, texts, strict=True)
        ],
        "queries.jsonl": [
            json.dumps({"id": name, "text": f"what is {name}" + " really" * 20}) for name in asked
        ],
        "qrels.tsv": ["query-id\tcorpus-id\tscore", *(f"{name}\t{name}\t1" for name in asked)],
        "pages/keys.md": ["# How to rotate the keys", "", "## How often", "", "Every month."],
        "cache/page.html": ["<title>Keys</title><main><p>Rotate the keys every month.</main>"],
        "realworld_tests.py": [
            "MOCK_PAGES = {'http://page': 'page.html'}",
            "def test():",
            "    result = load_mock_page('http://page')",
            "    assert 'every month' in result and 'every year' not in result",
        ],
    }
    for name, content in lines.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(content) + "\n")
    return tmp_path


@pytest.mark.parametrize("name", RUNS)
def test_it_runs(
    forked: ForkedPython, folder: Path, request: pytest.FixtureRequest, name: str
) -> None:
    """It ends without an error or a warning, and prints figures."""
    places: dict[str, object] = {"root": ROOT, "folder": folder}
    if "--dsn" in RUNS[name]:
        dsn: str = request.getfixturevalue("dsn")
        places |= {"dsn": dsn, "database": dsn.partition("?")[0]}
    arguments = [word.format(**places) for word in RUNS[name].split()]
    python = forked.commands / "python"
    done = run_program(
        [python, BENCHMARKS / f"{name}.py", *arguments],
        timeout=300,
        env={**os.environ, CONSTANTS: json.dumps({"sys:executable": str(python)})},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert any(character.isdigit() for character in done.stdout)


def test_no_benchmark_is_left_out() -> None:
    """Each file is run or imported by one that is, and the README names each benchmark."""
    assert {path.stem for path in BENCHMARKS.glob("*.py")} == RUNS.keys() | PARTS
    readme = (BENCHMARKS / "README.md").read_text()
    assert [name for name in [*RUNS, "compare"] if f"`{name}" not in readme] == []


def test_the_comparison_can_be_imported(forked: ForkedPython) -> None:
    """It needs environments with other libraries, so it only describes its options."""
    command = [forked.commands / "python", BENCHMARKS / "compare" / "__main__.py", "--help"]
    done = run_program(command, check=True)
    assert "--peers" in done.stdout
