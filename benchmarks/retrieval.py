"""How well each way to search finds, on test collections, and what a default must not break.

A collection is a folder with `corpus.jsonl` ({id, title, text}), `queries.jsonl` ({id, text}) and
`qrels.tsv`. Documents score by their best chunk; nDCG@10 with binary relevance. Behind each figure
is its difference from the first row, with the interval of a paired bootstrap (95 %).

    python benchmarks/retrieval.py [--kept FOLDER] FOLDER...

The guards: `rare words` asks for a document with three of its twelve rarest words, which words
alone nearly always find. `thinned` keeps one relevant document of each question, so that it has no
others to lean on. `--kept` keeps the indexes for the next run: most of the time goes into vectors.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorebind import Project
from lorebind_knowledge.declarations import RetrievalDeclaration
from lorebind_knowledge.evaluation.dataset import Dataset, read_dataset
from lorebind_knowledge.evaluation.evaluate import evaluate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lorebind_knowledge.knowledge_base import KnowledgeBase

PUBLISHED = {
    "cranfield": {"lexical": 0.519, "similarity": 0.509, "rrf": 0.559},
    "med": {"lexical": 0.696, "similarity": 0.788, "rrf": 0.786},
}
"""BM25 (k1 1.5, b 0.75, Snowball), all-MiniLM-L6-v2 on whole documents, and their fusion, as
measured with bm25s and ONNX Runtime; the pipeline reproduces the figures published for SciFact."""

WAYS: dict[str, dict[str, Any]] = {
    "hybrid": {},
    "dense_weight 0.4": {"fusion": {"dense_weight": 0.4}},
    "dense_weight 0.6": {"fusion": {"dense_weight": 0.6}},
    "document_weight 0": {"fusion": {"document_weight": 0}},
    "rrf": {"fusion": {"method": "rrf"}},
    "mmr": {"strategy": "mmr"},
    "similarity": {"strategy": "similarity"},
    "lexical": {"strategy": "lexical"},
}
_GUARDED = ("hybrid", "dense_weight 0.4", "dense_weight 0.6", "document_weight 0", "rrf")
_ASKED = 200
"""Documents that the guard of rare words asks for."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    options.add_argument("--kept", type=Path, help="keep the indexes here")
    given = options.parse_args()
    missing = [str(folder) for folder in given.folders if not (folder / "corpus.jsonl").is_file()]
    if missing:
        sys.exit(f"benchmarks/retrieval.py needs folders with test collections: {missing}")
    for folder in given.folders:
        with tempfile.TemporaryDirectory() as temporary:
            measure(folder, (given.kept or Path(temporary)) / folder.name)


def measure(folder: Path, root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    documents = [
        json.loads(line)
        for line in (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    for document in documents:
        title = json.dumps(document.get("title") or "")
        text = f"---\ntitle: {title}\n---\n{document['text']}\n"
        (root / f"{document['id']}.md").write_text(text, encoding="utf-8")
    sources = [{"type": "markdown_glob", "path": "*.md"}]
    declared = {"name": "benchmark", "knowledge_bases": [{"id": "docs", "sources": sources}]}
    judged = read_dataset(folder / "queries.jsonl", folder / "qrels.tsv")
    with Project.build(declared, root=root) as project:
        project.ingest("docs")
        kb = project.knowledge.knowledge_base("docs")
        show(kb, folder.name, judged, WAYS)
        guarded = {name: WAYS[name] for name in _GUARDED}
        show(kb, f"{folder.name}, rare words", rare_words(documents), guarded)
        show(kb, f"{folder.name}, thinned", thinned(judged), guarded)


def show(
    kb: KnowledgeBase, title: str, judged: Dataset, ways: Mapping[str, Mapping[str, Any]]
) -> None:
    settings = {name: RetrievalDeclaration(**way) for name, way in ways.items()}
    print(f"\n{title}: {len(judged.relevant)} questions")
    print(
        "way                 nDCG@10  against the first        elsewhere   recall@100  MRR    p50"
    )
    for found in asyncio.run(evaluate(kb, judged, settings)):
        elsewhere = PUBLISHED.get(title, {}).get(found.strategy)
        print(
            f"{found.strategy:18}  {found.ndcg_10:.3f}    {found.against_first or '':24!s} "
            f"{f'{elsewhere:.3f}' if elsewhere else '-':11} {found.recall_100:.3f}       "
            f"{found.mrr:.3f}  {found.p50_ms:.0f} ms",
            flush=True,
        )


def rare_words(documents: list[dict[str, str]]) -> Dataset:
    """Questions of three of the twelve rarest words of a document that are in others too."""
    words = {
        one["id"]: set(re.findall(r"[a-z]{3,}", f"{one.get('title') or ''} {one['text']}".lower()))
        for one in documents
    }
    rarity = Counter(word for found in words.values() for word in found)
    chance = random.Random(7)
    queries, relevant = {}, {}
    for name in chance.sample(sorted(words), min(_ASKED, len(words))):
        rarest = sorted((rarity[word], word) for word in words[name] if rarity[word] >= 2)[:12]
        if len(rarest) >= 3:
            queries[name] = " ".join(word for _, word in chance.sample(rarest, 3))
            relevant[name] = frozenset([name])
    return Dataset(queries, relevant)


def thinned(judged: Dataset) -> Dataset:
    """The same questions, each with one of its relevant documents alone."""
    chance = random.Random(7)
    kept = {
        name: frozenset([chance.choice(sorted(found))]) for name, found in judged.relevant.items()
    }
    return replace(judged, relevant=kept)


if __name__ == "__main__":
    main()
