"""The cost of `recency` where dates say nothing: documents with random dates of five years.

    python benchmarks/recency.py FOLDER ...

Each folder has `corpus.jsonl`, `queries.jsonl` and `qrels.tsv`, as for `retrieval.py`. The first
row is the search without `recency`; its figures are those of `retrieval.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import random
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from retrieval import knowledge_base, read_documents, show, write_documents

from lorebind_config.dates import date_text
from lorebind_knowledge.evaluation.dataset import read_dataset

DAYS = 5 * 365
WAYS: dict[str, dict[str, Any]] = {
    "hybrid": {},
    **{
        f"{half_life}, weight {weight}": {"recency": {"half_life": half_life, "weight": weight}}
        for half_life in ("180d", "2y")
        for weight in (0.1, 0.2, 0.5)
    },
    "similarity": {"strategy": "similarity"},
    "similarity, 0.2": {"strategy": "similarity", "recency": {"weight": 0.2}},
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    with ExitStack() as stack:
        for folder in options.parse_args().folders:
            root = write_documents(read_documents(folder), Path(_place(stack)) / folder.name)
            date_documents(root)
            kb = knowledge_base(stack, root, "*.md", None)
            judged = read_dataset(folder / "queries.jsonl", folder / "qrels.tsv")
            asyncio.run(show(kb, folder.name, judged, WAYS))


def _place(stack: ExitStack) -> str:
    return stack.enter_context(tempfile.TemporaryDirectory())


def date_documents(root: Path) -> None:
    """Give each document a random date, the same in each run."""
    ages = random.Random(7)
    today = datetime.datetime.now(datetime.UTC).date()
    for file in sorted(root.glob("*.md")):
        date = date_text(today - datetime.timedelta(days=ages.randrange(DAYS)))
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("---\n", f"---\nmodified: {date}\n", 1), encoding="utf-8")


if __name__ == "__main__":
    main()
