"""Whether questions for a cell find its row, in tables of every format.

    python benchmarks/tables.py [--formats md,docx] [--questions N] [--embedder ID]

Each format has its own knowledge base with the same four tables of 48 rows, see
`table_documents.py`. A passage is right if a line of it has the tool and the number of the answer.
`first`: the share of questions whose first passage is right. `MRR`: the mean reciprocal rank of
the first right passage among ten. `pdf` has the setting `tables`, `plain pdf` does not.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path
from typing import Any

from table_documents import QUESTIONS, WRITERS, answer, files

from lorebind import Project

TOP = 10


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--formats", default=",".join(WRITERS))
    parser.add_argument("--questions", type=int, default=len(QUESTIONS))
    parser.add_argument("--embedder", default="local", help="a provider; default: local")
    arguments = parser.parse_args()
    for form in arguments.formats.split(","):
        if form == "pdf":
            measure("plain pdf", form, arguments)
        measure(form, form, arguments, pdf={"tables": True})


def measure(name: str, suffix: str, arguments: argparse.Namespace, **preprocess: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for file, content in files(suffix).items():
            Path(folder, file).write_bytes(content)
        source = {"type": "file_glob", "path": f"*.{suffix}"}
        kb = {"id": "docs", "sources": [source], "preprocess": preprocess}
        declared = {
            "name": "tables",
            "embedders": [{"id": "default", "provider": arguments.embedder}],
            "knowledge_bases": [kb],
        }
        with Project.build(declared, root=folder) as project:
            chunks = project.ingest("docs").chunks["total"]
            ranks = [
                rank(project, question, product, answer(product, column))
                for question, product, column in QUESTIONS[: arguments.questions]
            ]
    first = sum(position == 1 for position in ranks) / len(ranks)
    reciprocal = sum(1 / position for position in ranks if position) / len(ranks)
    print(
        f"{name:10} {len(ranks)} questions, {chunks} passages  "
        f"first {first:.2f}  MRR {reciprocal:.3f}"
    )


def rank(project: Project, question: str, product: str, number: str) -> int:
    """Return the rank of the first right passage; 0 if there is none."""
    row = re.compile(rf"{product}\b.*\b{number}\b")
    matches = project.query("docs", question, top_k=TOP).matches
    return next(
        (at for at, match in enumerate(matches, 1) if row.search(match.text)),
        0,
    )


if __name__ == "__main__":
    main()
