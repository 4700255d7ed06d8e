"""The cost of ingestion, each figure as a ratio to another one of the same run.

    make bench
    python benchmarks/ingest.py [FOLDER] [--rounds N] [--files N]
                                [--parts model,changes,stores,peers]

`model`: first ingest against a bare embedding loop, same chunks, same ONNX session. Rounds
alternate between the two, so that a change in the machine's speed affects both alike. The bare loop
does what any program must: tokenize, sort by length, run the graph, pool. All work that Lorebind
adds (reading, chunking, comparing, the embedding cache, the store, the ledger) is in the other
figure.

The other parts embed at almost no cost, so that they measure only the work that Lorebind adds.
`changes`: `--files` with ten chunks each, unchanged, with one file edited, with two of five files
removed, and their chunks read back. `stores`: many small and few large files into each embedded
store, against the plan, which reads, chunks and compares them; and with 64 texts a batch, as most
embedders have, against 1,000. `peers`: the time of other libraries for the same chunks, which they
get ready-made, while Lorebind reads and splits the files.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from peers import Cheap, Passage, Peer, installed

from lorebind import Project
from lorebind_knowledge.embedders.base import embed_query
from lorebind_knowledge.embedders.local import (
    ROWS_PER_RUN,
    LocalEmbedder,
    load_session,
    load_tokenizer,
    run_graph,
)
from lorebind_knowledge.plumbing.bridge import run
from lorebind_knowledge.plumbing.lanes import usable_processors

QUICKSTART = Path(__file__).resolve().parents[1] / "examples" / "quickstart" / "docs"
CHEAP = {"provider": "langchain", "class": "peers:Cheap", "batch_size": 1000}
SMALL_BATCHES = {**CHEAP, "batch_size": 64}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=QUICKSTART)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=1000, help="for all parts but model")
    parser.add_argument("--parts", default="model,changes,stores,peers")
    arguments = parser.parse_args()
    parts = arguments.parts.split(",")
    if "model" in parts:
        against_the_model(arguments.folder, arguments.rounds)
    if "changes" in parts:
        changes(arguments.rounds, arguments.files)
    if "stores" in parts:
        stores(arguments.rounds, arguments.files)
    if "peers" in parts:
        peers(arguments.rounds, arguments.files)


class Times(NamedTuple):
    """Wall clock seconds, and processor seconds of all threads, which vary less under load."""

    wall: float
    cpu: float


def timed(work: Callable[..., object], *arguments: Any) -> Times:
    wall, cpu = time.perf_counter(), time.process_time()
    work(*arguments)
    return Times(time.perf_counter() - wall, time.process_time() - cpu)


def ratio(ours: list[Times], theirs: list[Times]) -> str:
    """Return the median ratio over the rounds, by both clocks."""
    medians = (
        statistics.median(
            getattr(mine, clock) / getattr(other, clock)
            for mine, other in zip(ours, theirs, strict=True)
        )
        for clock in ("wall", "cpu")
    )
    return "wall {:.3f}, cpu {:.3f}".format(*medians)


# Comparison with the model alone.


def against_the_model(folder: Path, rounds: int) -> None:
    texts = embedded_texts(folder)
    session, tokenizer = load_session(usable_processors()), load_tokenizer()
    bare, first, again = [], [], []
    for number in range(1, rounds + 1):
        bare.append(timed(bare_loop, session, tokenizer, texts))
        with tempfile.TemporaryDirectory() as scratch:
            ours = project(folder, Path(scratch) / "bench.db")
            with ours:
                warm(ours)
                first.append(timed(ingest, ours, len(texts)))
                again.append(timed(ingest, ours, 0))
        print(
            f"round {number}: bare loop {len(texts) / bare[-1].wall:.1f} chunks/s, "
            f"first ingest {len(texts) / first[-1].wall:.1f} chunks/s, "
            f"unchanged ingest {again[-1].wall * 1000:.0f} ms"
        )
    print(f"{len(texts)} chunks, median of {rounds} rounds:")
    print(f"  first ingest / bare loop: {ratio(first, bare)}")


def embedded_texts(folder: Path) -> list[str]:
    """Return the texts that an ingest of the folder sends to the embedder."""
    Cheap.texts.clear()
    with project(folder, None, embedder=CHEAP) as declared:
        declared.ingest("docs")
    return list(Cheap.texts)


def bare_loop(session: Any, tokenizer: Any, texts: list[str]) -> None:
    """Run the model alone, with the batches of a first ingest."""
    size = LocalEmbedder().batch_size
    for start in range(0, len(texts), size):
        encodings = tokenizer.encode_batch(texts[start : start + size])
        by_length = sorted(encodings, key=lambda encoding: len(encoding.ids))
        vectors = [
            run_graph(session, [encoding.ids for encoding in by_length[row : row + ROWS_PER_RUN]])
            for row in range(0, len(by_length), ROWS_PER_RUN)
        ]
        np.concatenate(vectors)


# Changes and stores.


def changes(rounds: int, files: int) -> None:
    read, first, again, edited, exported, removed = [], [], [], [], [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "docs"
            passages = corpus(folder, files, paragraphs=10)
            time.sleep(2.1)  # files that were read while younger are read again
            read.append(timed(read_and_hash, folder))
            with project(folder, Path(scratch) / "bench.db", embedder=CHEAP) as ours:
                first.append(timed(ingest, ours, len(passages)))
                again.append(timed(ingest, ours, 0))
                edit(folder)
                edited.append(timed(ingest, ours, 1))
                exported.append(timed(export, ours, len(passages)))
                for path in sorted(folder.iterdir())[: files * 2 // 5]:
                    path.unlink()
                removed.append(timed(ingest, ours, 0))
    print(f"{len(passages)} chunks in {files} files, sqlite, median of {rounds} rounds:")
    print(f"  first ingest: {len(passages) / first[-1].wall:.0f} chunks/s in the last round")
    print(f"  unchanged / first ingest: {ratio(again, first)}")
    print(f"  unchanged / reading and hashing the files: {ratio(again, read)}")
    print(f"  one file edited / unchanged: {ratio(edited, again)}; 1 text embedded")
    print(f"  two of five files removed / first ingest: {ratio(removed, first)}")
    print(f"  all chunks read back / first ingest: {ratio(exported, first)}")


def stores(rounds: int, files: int) -> None:
    for count, paragraphs in ((2 * files, 2), (files // 5, 100)):
        planned, on_disk, in_memory, in_batches = [], [], [], []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch) / "docs"
                chunks = len(corpus(folder, count, paragraphs))
                with project(folder, Path(scratch) / "bench.db", embedder=CHEAP) as ours:
                    planned.append(timed(ours.plan, "docs"))
                    on_disk.append(timed(ingest, ours, chunks))
                with project(folder, None, embedder=CHEAP) as ours:
                    in_memory.append(timed(ingest, ours, chunks))
                with project(folder, Path(scratch) / "64.db", embedder=SMALL_BATCHES) as ours:
                    in_batches.append(timed(ingest, ours, chunks))
        print(f"{count} files of {paragraphs} chunks, median of {rounds} rounds:")
        for name, times in (("sqlite", on_disk), ("memory", in_memory)):
            print(
                f"  first ingest into {name} / plan: {ratio(times, planned)}; "
                f"{chunks / times[-1].wall:.0f} chunks/s in the last round"
            )
        print(f"  first ingest into sqlite, 64 texts / 1,000 a batch: {ratio(in_batches, on_disk)}")


# Other libraries.


def edit(folder: Path) -> None:
    """Rewrite one paragraph of one file."""
    path = folder / "3.md"
    first, *others = path.read_text().split("\n\n")
    path.write_text("\n\n".join([" ".join(reversed(first.split())), *others]))


STEPS: dict[str, Callable[[Path], object]] = {
    "first": lambda folder: None,
    "unchanged": lambda folder: None,
    "one edited": edit,
    "one file gone": lambda folder: (folder / "7.md").unlink(),
}
"""The change of the folder before each ingest."""


def peers(rounds: int, files: int) -> None:
    makers = {"Lorebind, sqlite": ours_on_disk, "Lorebind, memory": ours_in_memory, **installed()}
    times: dict[str, list[list[Times]]] = {name: [[] for _ in STEPS] for name in makers}
    notes: dict[str, list[str]] = {}
    for _ in range(rounds):
        for name, make in makers.items():
            with tempfile.TemporaryDirectory() as scratch:
                corpus(Path(scratch) / "docs", files, paragraphs=10)
                notes[name] = []
                peer = make(Path(scratch))
                for change, taken in zip(STEPS.values(), times[name], strict=True):
                    change(Path(scratch) / "docs")
                    passages = contents(Path(scratch) / "docs")
                    Cheap.texts.clear()
                    taken.append(timed(peer.ingest, passages))
                    stale = peer.held() - len(passages)
                    notes[name].append(f"{len(Cheap.texts)} embedded, {stale} left behind")
    base = times["Lorebind, sqlite"]
    print(f"{files} files of 10 chunks, times of Lorebind with sqlite, median of {rounds} rounds:")
    for name, rows in times.items():
        print(f"  {name}")
        for step, theirs, mine, words in zip(STEPS, rows, base, notes[name], strict=True):
            print(f"    {step:<14} {ratio(theirs, mine)}; {words}")


def ours_on_disk(scratch: Path) -> Peer:
    return ours(scratch, scratch / "bench.db")


def ours_in_memory(scratch: Path) -> Peer:
    return ours(scratch, None)


def ours(scratch: Path, database: Path | None) -> Peer:
    """Ingest with Lorebind, which reads the folder instead of getting its content."""
    declared = project(scratch / "docs", database, embedder=CHEAP)
    return Peer(lambda passages: declared.ingest("docs"), lambda: declared.stats("docs").chunks)


# Helpers.


def corpus(folder: Path, files: int, paragraphs: int) -> list[Passage]:
    """Write Markdown files with paragraphs of some 400 characters, all different; each is a
    chunk."""
    chance = random.Random(files)
    words = [f"{chance.randrange(16**5):x}" for _ in range(5000)]
    folder.mkdir()
    for number in range(files):
        texts = [" ".join(chance.choices(words, k=68)) for _ in range(paragraphs)]
        (folder / f"{number}.md").write_text("\n\n".join(texts))
    return contents(folder)


def contents(folder: Path) -> list[Passage]:
    """Return the paragraphs of all files."""
    return [
        Passage(path.name, text)
        for path in sorted(folder.iterdir())
        for text in path.read_text().split("\n\n")
    ]


def read_and_hash(folder: Path) -> None:
    """Do the minimum that detects a changed file, whatever its modification time."""
    for path in sorted(folder.iterdir()):
        hashlib.sha256(path.read_bytes()).digest()


def ingest(declared: Project, expected: int) -> None:
    report = declared.ingest("docs")
    assert (report.status, report.texts_embedded) == ("completed", expected), report


def export(declared: Project, expected: int) -> None:
    """Read all chunks, a page of documents at a time."""
    docs, count, after = declared.knowledge_base("docs"), 0, None
    while page := docs.documents(limit=1000, after=after):
        after = page[-1].uri
        chunks = docs.chunks_of([document.uri for document in page])
        count += sum(map(len, chunks.values()))
    assert count == expected, count


def warm(declared: Project) -> None:
    """Load the model before the clock starts, as for the bare loop."""
    run(embed_query(declared.knowledge.open("docs").kb.embedder, "warm"))


def project(
    folder: Path, database: Path | None, *, embedder: dict[str, Any] | None = None
) -> Project:
    """Build a project with one knowledge base over a folder.

    Args:
        folder: a folder of Markdown files.
        database: the SQLite file; None keeps everything in memory.
        embedder: an embedder declaration; None uses the local one.
    """
    stored = {"type": "sqlite", "config": {"path": str(database)}}
    return Project.build(
        {
            "name": "bench",
            "embedders": [{"id": "one", **(embedder or {"provider": "local"})}],
            "vector_dbs": [{"id": "db", **(stored if database else {"type": "memory"})}],
            "knowledge_bases": [
                {
                    "id": "docs",
                    "sources": [{"type": "markdown_glob", "path": "**/*.md"}],
                    "chunking": {"size": 600, "overlap": 90},
                }
            ],
        },
        root=folder,
    )


if __name__ == "__main__":
    main()
