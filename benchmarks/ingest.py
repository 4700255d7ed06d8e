"""First ingest against a bare embedding loop: same chunks, same ONNX session, same run.

    make bench
    python benchmarks/ingest.py [FOLDER] [--rounds N]

Rounds alternate between the two, so that a change in the machine's speed meets both alike. The
bare loop does what any program must: tokenise, sort by length, run the graph, pool. Everything
that Lorebind adds (reading, chunking, comparing, the embedding cache, the store, the ledger) is in
the other figure.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lorebind import Project
from lorebind_knowledge.bridge import run
from lorebind_knowledge.embedders.base import embed_query
from lorebind_knowledge.embedders.local import (
    ROWS_PER_RUN,
    LocalEmbedder,
    load_session,
    load_tokenizer,
    run_graph,
    usable_processors,
)
from lorebind_knowledge.ingest.enumeration import enumerate_sources
from lorebind_knowledge.ingest.preparation import prepare_documents

if TYPE_CHECKING:
    from collections.abc import Callable

QUICKSTART = Path(__file__).resolve().parents[1] / "examples" / "quickstart" / "docs"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=QUICKSTART)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()

    texts = embedded_texts(arguments.folder)
    session, tokenizer = load_session(usable_processors()), load_tokenizer()
    bare, first, again = [], [], []
    for number in range(1, arguments.rounds + 1):
        bare.append(timed(bare_loop, session, tokenizer, texts))
        with tempfile.TemporaryDirectory() as scratch:
            ours = project(arguments.folder, Path(scratch) / "bench.db")
            with ours:
                warm(ours)
                first.append(timed(ingest, ours, len(texts)))
                again.append(timed(ingest, ours, 0))
        print(
            f"round {number}: bare loop {len(texts) / bare[-1].wall:.1f} chunks/s, "
            f"first ingest {len(texts) / first[-1].wall:.1f} chunks/s, "
            f"unchanged ingest {again[-1].wall * 1000:.0f} ms"
        )
    print(f"{len(texts)} chunks, median of {arguments.rounds} rounds, first ingest / bare loop:")
    for clock in ("wall", "cpu"):
        ratios = [
            getattr(mine, clock) / getattr(theirs, clock)
            for mine, theirs in zip(first, bare, strict=True)
        ]
        print(f"  {clock} time {statistics.median(ratios):.3f}")


class Times(NamedTuple):
    """Seconds on the wall, and seconds of processors (of all threads; steadier under load)."""

    wall: float
    cpu: float


def timed(work: Callable[..., object], *arguments: Any) -> Times:
    wall, cpu = time.perf_counter(), time.process_time()
    work(*arguments)
    return Times(time.perf_counter() - wall, time.process_time() - cpu)


def embedded_texts(folder: Path) -> list[str]:
    """The texts that an ingest of the folder gives to the embedder."""
    with project(folder, Path("unused.db")) as declared:
        kb = declared.knowledge.knowledge_base("docs")
        documents = prepare_documents(kb, enumerate_sources(kb.sources), {})
        return [chunk.embedded_text for document in documents for chunk in document.chunks]


def bare_loop(session: Any, tokenizer: Any, texts: list[str]) -> None:
    """The model alone, with the batches of a first ingest."""
    size = LocalEmbedder().batch_size
    for start in range(0, len(texts), size):
        encodings = tokenizer.encode_batch(texts[start : start + size])
        by_length = sorted(encodings, key=lambda encoding: len(encoding.ids))
        vectors = [
            run_graph(session, [encoding.ids for encoding in by_length[row : row + ROWS_PER_RUN]])
            for row in range(0, len(by_length), ROWS_PER_RUN)
        ]
        np.concatenate(vectors)


def ingest(declared: Project, expected: int) -> None:
    report = declared.ingest("docs")
    assert (report.status, report.texts_embedded) == ("completed", expected), report


def warm(declared: Project) -> None:
    """Load the model before the clock starts, as the bare loop's was."""
    run(embed_query(declared.knowledge.knowledge_base("docs").embedder, "warm"))


def project(folder: Path, database: Path) -> Project:
    return Project.build(
        {
            "name": "bench",
            "vector_dbs": [{"id": "db", "type": "sqlite", "config": {"path": str(database)}}],
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
