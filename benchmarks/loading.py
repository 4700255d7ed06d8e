"""The cost and the gain of reading documents in separate processes.

    python benchmarks/loading.py [--rounds N] [--pages N]

Documents are enumerated, read and chunked as in an ingest, without embedding, in alternating
rounds, each time in a new process, as a command would be. The baseline of each row is the same work
with `loading: {processes: 0}`, where one process reads everything itself. PDF files of 25 pages
each are generated; the Markdown pages are the quickstart's, which no other process reads.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure

from lorebind_config.declarations.sources import LoadingDeclaration
from lorebind_config.reading.loading import build_project
from lorebind_knowledge import KnowledgeService
from lorebind_knowledge.ingest.corpus import enumerate_sources
from lorebind_knowledge.ingest.preparation import prepare_documents
from lorebind_knowledge.loaders.readers import Loading
from lorebind_knowledge.plumbing.bridge import run

if TYPE_CHECKING:
    from lorebind_knowledge import Corpus

DOCS = Path(__file__).resolve().parents[1] / "examples" / "quickstart" / "docs"
PAGES_PER_FILE = 25
LINES_PER_PAGE = 45


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pages", type=int, default=500)
    parser.add_argument("--read", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        folder, pattern, processes = arguments.read
        print(*read(Path(folder), pattern, int(processes)))
        return
    with tempfile.TemporaryDirectory() as folder:
        make_pages(Path(folder), arguments.pages)
        compare("PDF", Path(folder), "*.pdf", arguments.rounds, (1, 2))
        compare("Markdown", DOCS, "**/*.md", arguments.rounds, (2,))


def compare(name: str, folder: Path, pattern: str, rounds: int, processes: tuple[int, ...]) -> None:
    seconds: dict[int, list[float]] = {number: [] for number in (0, *processes)}
    for _ in range(rounds):
        for number, taken in seconds.items():
            command = [sys.executable, __file__, "--read", str(folder), pattern, str(number)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            documents, figure = done.stdout.split()
            taken.append(float(figure))
    baseline = statistics.median(seconds[0])
    print(f"{name}: {documents} documents, {baseline:.2f} s in one process")
    for number in processes:
        ratios = [first / other for first, other in zip(seconds[0], seconds[number], strict=True)]
        print(
            f"  processes: {number}  {statistics.median(seconds[number]):.2f} s, "
            f"{statistics.median(ratios):.2f} times as fast "
            f"({min(ratios):.2f} to {max(ratios):.2f} in {rounds} rounds)"
        )


def read(folder: Path, pattern: str, processes: int) -> tuple[int, float]:
    """Return the number of documents, and the seconds to read and chunk them."""
    loading = Loading(LoadingDeclaration(processes=processes))
    corpus = replace(corpus_of(folder, pattern), loading=loading)
    begun = time.perf_counter()
    documents = run(prepare(corpus))
    return documents, time.perf_counter() - begun


async def prepare(corpus: Corpus) -> int:
    count = 0
    async for documents in prepare_documents(corpus, enumerate_sources(corpus.sources), {}, 64):
        assert all(document.action == "added" for document in documents), documents
        count += len(documents)
    return count


def corpus_of(folder: Path, pattern: str) -> Corpus:
    declared = {
        "name": "loading",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [{"id": "here", "type": "memory"}],
        "knowledge_bases": [
            {"id": "all", "sources": [{"type": "file_glob", "path": pattern}]},
        ],
    }
    return KnowledgeService(build_project(declared, root=folder)).open("all").corpus()


def make_pages(folder: Path, pages: int) -> None:
    """Write PDF files with text in the fonts of the PDF library."""
    drawn = random.Random(1)
    words = " ".join(path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md")))
    vocabulary = [word for word in words.split() if word.isalnum()]
    for first in range(0, pages, PAGES_PER_FILE):
        with PdfPages(folder / f"{first}.pdf") as file:
            for _ in range(min(PAGES_PER_FILE, pages - first)):
                lines = (" ".join(drawn.choices(vocabulary, k=12)) for _ in range(LINES_PER_PAGE))
                page = Figure(figsize=(8.3, 11.7))
                page.text(0.05, 0.05, "\n".join(lines), fontsize=9)
                file.savefig(page)


if __name__ == "__main__":
    main()
