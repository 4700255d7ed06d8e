"""Peak memory of ingesting a small corpus and one that is ten times larger.

    python benchmarks/memory.py [SMALL] [LARGE] [--file-size BYTES] [--store sqlite|memory]

Sizes are in megabytes, by default 50 and 500. Each corpus is written to disk, ingested twice with
the hashing embedder, so that vectors are small, and removed. Each ingest is a separate process; the
second one finds everything unchanged. The exit code is 1 if the large corpus takes more than 200 MB
beyond the small one, which is unavoidable for a store that keeps everything in memory.
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

DIMENSION = 32
MOST_MORE = 200_000_000


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("small", nargs="?", type=float, default=50)
    parser.add_argument("large", nargs="?", type=float, default=500)
    parser.add_argument("--file-size", type=int, default=100_000)
    parser.add_argument("--store", choices=("sqlite", "memory"), default="sqlite")
    parser.add_argument("--ingest", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ingest:
        print(*ingest(arguments.ingest, arguments.store))
        return 0

    peaks = []
    for megabytes in (arguments.small, arguments.large):
        with tempfile.TemporaryDirectory() as folder:
            files = fill(Path(folder), int(megabytes * 1_000_000), arguments.file_size)
            print(f"{megabytes:g} MB in {files} files of {arguments.file_size / 1000:g} kB")
            # A store in memory ends with its process.
            runs = ("first", "second") if arguments.store == "sqlite" else ("first",)
            done = [measured(folder, arguments.store) for _ in runs]
        peaks.append(max(peak for _, _, peak, _ in done))
        for run, (chunks, before, peak, seconds) in zip(runs, done, strict=True):
            print(
                f"  {run} ingest: {chunks:.0f} chunks, peak {in_mib(peak)}, of which "
                f"{in_mib(before)} before it; {seconds:.1f} s, {megabytes / seconds:.2f} MB/s",
                flush=True,
            )
    more = peaks[1] - peaks[0]
    print(
        f"{arguments.large / arguments.small:g} times the corpus on {arguments.store}: "
        f"{in_mib(more)} more, {peaks[1] / peaks[0]:.2f} times the peak"
    )
    return int(more > MOST_MORE)


def in_mib(size: float) -> str:
    return f"{size / 2**20:.1f} MiB"


def measured(folder: str, store: str) -> tuple[float, ...]:
    """Return chunks, bytes before the ingest, bytes at the peak, and seconds."""
    command = [sys.executable, __file__, "--ingest", folder, "--store", store]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return tuple(map(float, done.stdout.split()))


def fill(folder: Path, size: int, file_size: int) -> int:
    """Write Markdown files of nearly `file_size` bytes without common paragraphs; return their
    number."""
    chance = random.Random(size)
    words = [f"{chance.randrange(16**6):x}" for _ in range(20_000)]
    files = size // file_size
    for number in range(files):
        paragraphs, left = [f"# Document {number}"], file_size
        while left > 0:
            paragraphs.append(" ".join(chance.choices(words, k=90)))
            left -= len(paragraphs[-1]) + 2
        place = folder / f"{number % 100}"  # limits the number of files per folder
        place.mkdir(exist_ok=True)
        (place / f"{number}.md").write_text("\n\n".join(paragraphs)[:file_size])
    return files


def ingest(folder: Path, store: str) -> tuple[float, ...]:
    from lorebind import Project  # not at the top: child processes inherit the size of this one

    declared = {
        "name": "memory",
        "embedders": [
            {"id": "words", "provider": "hashing"}
            | {"config": {"dimension": DIMENSION, "batch_size": 256}}
        ],
        "vector_dbs": [{"id": "here", "type": store}],
        "knowledge_bases": [
            {"id": "docs", "sources": [{"type": "markdown_glob", "path": "**/*.md"}]}
        ],
    }
    with Project.build(declared, root=folder) as project:
        before, began = peak(), time.perf_counter()
        report = project.ingest("docs")
        seconds = time.perf_counter() - began
    assert report.status == "completed", report
    return report.chunks["total"], before, peak(), seconds


def peak() -> float:
    """Return the peak memory of this process, in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    sys.exit(main())
