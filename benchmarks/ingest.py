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

import numpy as np

from lorebind import Project
from lorebind_knowledge.bridge import run
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
    for number in range(arguments.rounds):
        bare.append(bare_loop(session, tokenizer, texts))
        with tempfile.TemporaryDirectory() as scratch:
            first_seconds, again_seconds = ingest_twice(arguments.folder, Path(scratch))
        first.append(first_seconds)
        again.append(again_seconds)
        print(
            f"round {number + 1}: bare {len(texts) / bare[-1]:.1f} chunks/s, "
            f"ingest {len(texts) / first[-1]:.1f} chunks/s, "
            f"ratio {first[-1] / bare[-1]:.3f}, unchanged {again[-1] * 1000:.0f} ms"
        )
    ratios = [ours / theirs for ours, theirs in zip(first, bare, strict=True)]
    print(
        f"{len(texts)} chunks; first ingest / bare loop, median of {arguments.rounds}: "
        f"{statistics.median(ratios):.3f} in time; "
        f"unchanged ingest: {statistics.median(again) * 1000:.0f} ms"
    )


def embedded_texts(folder: Path) -> list[str]:
    """The texts that an ingest of the folder gives to the embedder."""
    with project(folder, Path("unused.db")) as declared:
        kb = declared.knowledge.knowledge_base("docs")
        documents = prepare_documents(kb, enumerate_sources(kb.sources), {})
        return [chunk.embedded_text for document in documents for chunk in document.chunks]


def bare_loop(session: object, tokenizer: object, texts: list[str]) -> float:
    """Seconds for the model alone, with the batches of a first ingest."""
    started = time.perf_counter()
    size = LocalEmbedder().batch_size
    for start in range(0, len(texts), size):
        encodings = tokenizer.encode_batch(texts[start : start + size])
        by_length = sorted(encodings, key=lambda encoding: len(encoding.ids))
        vectors = [
            run_graph(session, [encoding.ids for encoding in by_length[row : row + ROWS_PER_RUN]])
            for row in range(0, len(by_length), ROWS_PER_RUN)
        ]
        np.concatenate(vectors)
    return time.perf_counter() - started


def ingest_twice(folder: Path, scratch: Path) -> tuple[float, float]:
    """Seconds of a first ingest into a new database, and of a second that finds nothing new."""
    with project(folder, scratch / "bench.db") as declared:
        run(warm(declared))
        first = declared.ingest("docs")
        assert first.status == "completed", first
        again = declared.ingest("docs")
        assert again.texts_embedded == 0, again
    return first.seconds, again.seconds


async def warm(declared: Project) -> None:
    """Load the model before the clock starts, as the bare loop's was."""
    declared.knowledge.knowledge_base("docs").embedder.embed_query("warm")


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
