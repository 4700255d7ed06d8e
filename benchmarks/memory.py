"""Peak memory of ingesting a small and a large corpus: what a ten times larger one costs.

    python benchmarks/memory.py [SMALL] [LARGE]

Sizes are in megabytes, 50 and 500 if left out. Each corpus is made on disk, ingested into SQLite
by a process of its own with the hashing embedder, so that vectors are small, and removed.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lorebind import Project

FILE_SIZE = 100_000
DIMENSION = 32


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("small", nargs="?", type=int, default=50)
    parser.add_argument("large", nargs="?", type=int, default=500)
    parser.add_argument("--ingest", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ingest:
        print(*ingest(arguments.ingest))
        return

    peaks = []
    for megabytes in (arguments.small, arguments.large):
        chunks, before, peak, seconds = measured(megabytes)
        peaks.append(peak)
        print(
            f"{megabytes} MB, {chunks:.0f} chunks: peak {peak:.1f} MiB, {before:.1f} MiB before "
            f"the ingest; {seconds:.1f} s, {megabytes / seconds:.2f} MB/s"
        )
    times = arguments.large / arguments.small
    print(
        f"{times:g} times the corpus: {peaks[1] - peaks[0]:+.1f} MiB, "
        f"{peaks[1] / peaks[0]:.2f} times the peak"
    )


def measured(megabytes: int) -> tuple[float, ...]:
    """Chunks, MiB before the ingest, MiB at the peak, seconds."""
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder), megabytes)
        command = [sys.executable, __file__, "--ingest", folder]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return tuple(map(float, done.stdout.split()))


def fill(folder: Path, megabytes: int) -> None:
    """Markdown files of about `FILE_SIZE` characters, no two with a paragraph in common."""
    chance = random.Random(megabytes)
    words = [f"{chance.randrange(16**6):x}" for _ in range(20_000)]
    for number in range(megabytes * 1_000_000 // FILE_SIZE):
        paragraphs, size = [f"# Document {number}"], 0
        while size < FILE_SIZE:
            paragraphs.append(" ".join(chance.choices(words, k=90)))
            size += len(paragraphs[-1]) + 2
        (folder / f"{number}.md").write_text("\n\n".join(paragraphs))


def ingest(folder: Path) -> tuple[float, ...]:
    declared = {
        "name": "memory",
        "embedders": [
            {"id": "words", "provider": "hashing"}
            | {"config": {"dimension": DIMENSION, "batch_size": 256}}
        ],
        "knowledge_bases": [{"id": "docs", "sources": [{"type": "markdown_glob", "path": "*.md"}]}],
    }
    with Project.build(declared, root=folder) as project:
        before, began = peak(), time.perf_counter()
        report = project.ingest("docs")
        seconds = time.perf_counter() - began
    assert report.status == "completed", report
    return report.chunks["total"], before, peak(), seconds


def peak() -> float:
    """The most memory that this process ever had, in MiB."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1024 * 1024 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    main()
