"""Ingests that are killed: a rerun ends where an undisturbed run ends, and costs no more."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .bench import Bench, paragraph

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills by a signal of POSIX")

BATCH = 4
KILLS = 4

PROGRAM = """
import asyncio, json, os, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.knowledge.bench import Bench
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.ingest.engine import ingest
from lorebind_knowledge.stores import SqliteStore
root, strategy = Path(sys.argv[2]), sys.argv[3]
path = root / ".lorebind" / "lorebind.db"
bench = Bench(root, lambda: (SqliteStore(path), Catalog(path)))
bench.embedder.batch_size = 4
log = os.open(root / "embedded.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def slowly(number):
    os.write(log, json.dumps(bench.embedder.batches[-1]).encode() + b"\\n")
    time.sleep(0.015)
bench.embedder.before_batch = slowly
print("begin", flush=True)
run = bench.reindex() if strategy == "reindex" else bench.ingest(strategy=strategy)
report = asyncio.run(run)
print(report.status, flush=True)
"""


class Killed:
    """Runs ingests of a project in processes of their own, and kills them."""

    def __init__(self, root: Path, strategy: str) -> None:
        self._command = [sys.executable, "-c", PROGRAM, str(Path(__file__).parents[2])]
        self._command += [str(root), strategy]
        self._log = root / "embedded.jsonl"

    def run(self, seconds: float | None) -> bool:
        """One ingest, killed after so long; whether it was killed before its end."""
        with subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begin\n"
            if seconds is not None:
                time.sleep(seconds)
                process.send_signal(signal.SIGKILL)
            rest = process.stdout.read()
            assert rest in ("", "completed\n")
            return rest == ""

    def embedded(self) -> list[str]:
        """Every text that was given to the embedder, in all runs."""
        if not self._log.exists():
            return []
        return [text for line in self._log.read_text().splitlines() for text in json.loads(line)]


def corpus(bench: Bench, version: int) -> dict[str, set[str]]:
    """Forty documents of three chunks; the second version changes all but every fourth."""
    texts: dict[str, set[str]] = {}
    for number in range(40):
        current = 1 if number % 4 == 0 else version
        chunks = [paragraph(f"v{current}d{number}{part}") for part in "ab"]
        chunks.append(paragraph(f"always{number}"))
        bench.write(f"{number}.md", *chunks)
        texts[f"docs/{number}.md"] = set(chunks)
    return texts


@pytest.mark.parametrize("strategy", ["upsert", "replace", "reindex"])
async def test_killed_again_and_again(make_bench: Callable[[str], Bench], strategy: str) -> None:
    """Readers see whole documents after every kill, the end is that of a fresh ingest, and each
    kill costs at most one batch."""
    bench = make_bench("sqlite")
    old = corpus(bench, 1)
    await bench.ingest()
    new = corpus(bench, 2)
    bench.write("added.md", paragraph("added"))
    bench.remove("39.md")
    killed = Killed(bench.root, strategy)
    chance = random.Random(strategy)
    kills = 0
    for _ in range(KILLS):
        if not killed.run(chance.uniform(0.01, 0.12)):
            break
        kills += 1
        found: dict[str, set[str]] = defaultdict(set)
        for match in await bench.visible():
            found[match.metadata["uri"]].add(match.text)
        added = found.pop("docs/added.md", {paragraph("added")})
        assert added == {paragraph("added")}
        if strategy != "upsert":
            assert found == old
        else:
            assert found.keys() == old.keys()
            assert all(texts in (old[uri], new[uri]) for uri, texts in found.items())
    assert kills >= 2, "the ingest is too fast to be killed"
    assert not killed.run(None)

    undisturbed = make_bench("memory")
    corpus(undisturbed, 2)
    undisturbed.write("added.md", paragraph("added"))
    undisturbed.remove("39.md")
    await undisturbed.ingest()
    assert await bench.visible() == await undisturbed.visible()
    needed = set(undisturbed.embedder.texts) - set(bench.embedder.texts)
    assert set(killed.embedded()) == needed
    assert len(killed.embedded()) <= len(needed) + kills * BATCH
    bench.embedder.forget()
    assert (await bench.ingest()).documents["unchanged"] == 40
    assert bench.embedder.batches == []


async def test_killed_in_the_first_ingest(make_bench: Callable[[str], Bench]) -> None:
    """The very first ingest of a project may be killed too, before its file is complete."""
    bench = make_bench("sqlite")
    corpus(bench, 1)
    killed = Killed(bench.root, "upsert")
    chance = random.Random(7)
    kills = sum(killed.run(chance.uniform(0, 0.12)) for _ in range(4))
    assert kills >= 1
    assert not killed.run(None)
    undisturbed = make_bench("memory")
    corpus(undisturbed, 1)
    await undisturbed.ingest()
    assert await bench.visible() == await undisturbed.visible()
    assert len(killed.embedded()) <= len(undisturbed.embedder.texts) + kills * BATCH
