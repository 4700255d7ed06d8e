"""The quality of each retrieval strategy, and guards for the defaults.

A folder with `corpus.jsonl` ({id, title, text}), `queries.jsonl` ({id, text}) and `qrels.tsv` is a
test collection. Documents score by their best passage; nDCG@10 with binary relevance. Any other
folder contains documentation. Each figure is followed by its difference from the first row, with
the interval of a paired bootstrap (95 %).

    python benchmarks/retrieval.py [--kept FOLDER] [--no-vectors] FOLDER...

Guards follow, see `guards.py`. For collections: `long` questions; `rare words`; `thinned`; `small`;
and `misses`, how reliably the best relevance separates a collection's own questions from those of
the others. For documentation: `headings`. `--kept` keeps the indexes for the next run, because most
of the time is embedding.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from guards import (
    ask_headings,
    best_relevances,
    headings,
    long,
    rare_words,
    separation,
    small,
    thinned,
)

from lorebind import Project
from lorebind_config.declarations.embedders import NONE
from lorebind_config.declarations.retrieval import RetrievalDeclaration
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.evaluation.dataset import Dataset, read_dataset
from lorebind_knowledge.evaluation.evaluate import evaluate
from lorebind_knowledge.evaluation.metrics import paired_difference, reciprocal_rank
from lorebind_knowledge.index.index import Index
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.records import Record
from lorebind_knowledge.retrieval.search import search
from lorebind_knowledge.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from lorebind_knowledge.catalog.indexes import Manifest
    from lorebind_knowledge.index.view import View
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase

PUBLISHED = {
    "cranfield": {"lexical": 0.519, "similarity": 0.509, "rrf": 0.559},
    "med": {"lexical": 0.696, "similarity": 0.788, "rrf": 0.786},
}
"""BM25 (k1 1.5, b 0.75, Snowball), all-MiniLM-L6-v2 on whole documents, and their fusion, as
measured with bm25s and ONNX Runtime; the pipeline reproduces the figures published for SciFact."""

WAYS: dict[str, dict[str, Any]] = {
    "hybrid": {},
    "terms 0": {"signals": {"lexical": 0.45, "terms": 0}},
    "terms 0.25": {"signals": {"lexical": 0.25, "terms": 0.25}},
    "dense 0.45": {"signals": {"dense": 0.45, "lexical": 0.4}},
    "dense 0.65": {"signals": {"dense": 0.65, "lexical": 0.2}},
    "document 0": {"fusion": {"document_weight": 0}},
    "smoothing 0.3": {"fusion": {"smoothing": {"weight": 0.3}}},
    "rrf": {"fusion": {"method": "rrf"}},
    "mmr": {"strategy": "mmr"},
    "similarity": {"strategy": "similarity"},
    "lexical": {"strategy": "lexical"},
}
SPREAD: dict[str, dict[str, Any]] = {
    f"{most} per document": {"max_per_document": most} for most in (1, 2, 3)
}
"""Moves passages behind those of other documents, without changing the order of documents."""
_NOT_DOCUMENTATION = ("_*", ".*", "*.py", "release-notes.md")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    options.add_argument("--kept", type=Path, help="keep the indexes here")
    options.add_argument("--no-vectors", action="store_true", help="search by words and terms only")
    arguments = options.parse_args()
    embedder = NONE if arguments.no_vectors else None
    if arguments.no_vectors:
        for name in ("dense 0.45", "dense 0.65", "smoothing 0.3", "mmr", "similarity"):
            del WAYS[name]
    if missing := [str(folder) for folder in arguments.folders if not folder.is_dir()]:
        sys.exit(f"benchmarks/retrieval.py needs folders to search: {missing}")
    with ExitStack() as stack:
        place = arguments.kept or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        questions: dict[str, list[str]] = {}
        kbs: dict[str, IndexedKnowledgeBase] = {}
        for folder in arguments.folders:
            root = place / (folder.name or folder.resolve().name)
            if (folder / "corpus.jsonl").is_file():
                documents = read_documents(folder)
                kb = knowledge_base(stack, write_documents(documents, root), "*.md", embedder)
                judged = read_dataset(folder / "queries.jsonl", folder / "qrels.tsv")
                asyncio.run(measure(kb, folder.name, documents, judged))
                kbs[folder.name] = kb
                questions[folder.name] = [judged.queries[name] for name in judged.relevant]
            else:
                kb = knowledge_base(stack, copied(folder, root), "**/*.*", embedder)
                asyncio.run(measure_headings(kb, folder.name))
        if len(kbs) > 1:
            asyncio.run(measure_misses(kbs, questions))


def read_documents(folder: Path) -> list[dict[str, str]]:
    lines = (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def write_documents(documents: Iterable[Mapping[str, str]], root: Path) -> Path:
    """Write each document as a file with its title, into the root of a project."""
    root.mkdir(parents=True, exist_ok=True)
    for document in documents:
        title = json.dumps(document.get("title") or "")
        text = f"---\ntitle: {title}\n---\n{document['text']}\n"
        (root / f"{document['id']}.md").write_text(text, encoding="utf-8")
    return root


def copied(folder: Path, root: Path) -> Path:
    ignored = shutil.ignore_patterns(*_NOT_DOCUMENTATION)
    shutil.copytree(folder, root, dirs_exist_ok=True, ignore=ignored)
    return root


def knowledge_base(
    stack: ExitStack, root: Path, path: str, embedder: str | None
) -> IndexedKnowledgeBase:
    kind = "markdown_glob" if path == "*.md" else "file_glob"
    bases = [{"id": "docs", "embedder": embedder, "sources": [{"type": kind, "path": path}]}]
    declared = {"name": "benchmark", "knowledge_bases": bases}
    project = stack.enter_context(Project.build(declared, root=root))
    project.ingest("docs")
    kb: IndexedKnowledgeBase = project.knowledge.open("docs").kb
    return kb


async def measure(
    kb: IndexedKnowledgeBase, title: str, documents: Sequence[dict[str, str]], judged: Dataset
) -> None:
    await show(kb, title, judged, WAYS)
    texts = {
        document["id"]: f"{document.get('title') or ''} {document['text']}"
        for document in documents
    }
    guarded = {name: way for name, way in WAYS.items() if name != "mmr"}
    await show(kb, f"{title}, long", long(judged), guarded)
    await show(kb, f"{title}, rare words", rare_words(texts), guarded)
    alone, away = thinned(judged)
    await show(kb, f"{title}, thinned", alone, guarded, away)
    await measure_small(kb, title, judged)


async def show(
    kb: IndexedKnowledgeBase,
    title: str,
    judged: Dataset,
    ways: Mapping[str, Mapping[str, Any]],
    away: Collection[str] = (),
) -> None:
    """Print the figures of each strategy; documents in `away` are excluded from the search."""
    filters = {"uri": {"$nin": [f"{name}.md" for name in sorted(away)]}} if away else {}
    settings = {name: RetrievalDeclaration(**way, filters=filters) for name, way in ways.items()}
    print(f"\n{title}: {len(judged.relevant)} questions")
    print(
        f"{'way':17}  nDCG@10  {'against the first':23}  recall@10  recall@100  MRR    p50    "
        "elsewhere"
    )
    for score in await evaluate(kb, judged, settings):
        elsewhere = PUBLISHED.get(title, {}).get(score.strategy)
        print(
            f"{score.strategy:17}  {score.ndcg_10:.3f}    {score.against_first or ''!s:23}  "
            f"{score.recall_10:.3f}      {score.recall_100:.3f}       {score.mrr:.3f}  "
            f"{score.p50_ms:3.0f} ms {f'  {elsewhere:.3f}' if elsewhere else ''}".rstrip(),
            flush=True,
        )


async def measure_small(kb: IndexedKnowledgeBase, title: str, judged: Dataset) -> None:
    whole = await call(kb.index.read, kb.namespace, passages)
    manifest = await call(kb.index.read, kb.namespace, lambda view: view.index.manifest)
    cases = list(small(judged, {name.removesuffix(".md") for name in whole}))
    print(f"\n{title}, ten documents each: {len(cases)} questions")
    print(f"{'way':17}  MRR@10   {'against the first':23}")
    ranks: dict[str, list[float]] = {name: [] for name in WAYS}
    for question, right, names in cases:
        few = replace(kb, index=Index(MemoryStore(), Catalog()))
        fill(few, manifest, [record for name in names for record in whole[f"{name}.md"]])
        for name, way in WAYS.items():
            settings = RetrievalDeclaration(**way, top_k=10, max_per_document=1)
            uris = [match.metadata["uri"] for match in await search((few,), question, settings)]
            ranks[name].append(reciprocal_rank(uris, [f"{right}.md"]))
        few.index.close()
    for name, mine in ranks.items():
        difference = paired_difference(mine, next(iter(ranks.values())))
        print(f"{name:17}  {np.mean(mine):.3f}    {difference!s:23}", flush=True)


def fill(kb: IndexedKnowledgeBase, manifest: Manifest, records: Sequence[Record]) -> None:
    with kb.catalog.lease(kb.namespace) as lease:
        created = kb.catalog.ledger.create_index(lease, manifest)
        kb.catalog.ledger.activate_index(lease, created.key)
        kb.index.stage(lease, created, [replace(record, index=created.key) for record in records])
        kb.index.publish(lease, created, {record.uri: record.generation for record in records})


def passages(view: View) -> dict[str, list[Record]]:
    """Return all passages with their vectors, by document."""
    whole = view.chunks(view.rows()[1].tolist())
    records: dict[str, list[Record]] = defaultdict(list)
    for chunk, vector in zip(whole.values(), view.vectors(list(whole)), strict=True):
        title = chunk.metadata["title"]
        records[chunk.uri].append(
            Record(
                chunk.id, view.index.key, chunk.uri, 1, chunk.text, vector, chunk.metadata, title
            )
        )
    return records


async def measure_headings(kb: IndexedKnowledgeBase, title: str) -> None:
    texts = headings(await call(kb.index.read, kb.namespace, heading_paths))
    print(f"\n{title}, headings: {len(texts)} questions")
    print(f"{'way':17}  MRR@10   {'against the first':23}  documents among 5, 10")
    first: Sequence[float] = ()
    for name, way in {**WAYS, **SPREAD}.items():
        result = await ask_headings(kb, texts, RetrievalDeclaration(**way))
        first = first or result.reciprocal_ranks
        difference = paired_difference(result.reciprocal_ranks, first) if name != "hybrid" else ""
        among = ", ".join(f"{count:.1f}" for count in result.documents)
        print(f"{name:17}  {result.mrr:.3f}    {difference!s:23}  {among}", flush=True)


def heading_paths(view: View) -> list[str]:
    whole = view.chunks(view.rows()[1].tolist()).values()
    return [chunk.metadata.get("heading") or "" for chunk in whole]


async def measure_misses(
    kbs: Mapping[str, IndexedKnowledgeBase], questions: Mapping[str, Sequence[str]]
) -> None:
    print("\nmisses: how surely the best relevance tells own questions from those of the others")
    for name, kb in kbs.items():
        foreign = [text for other, texts in questions.items() if other != name for text in texts]
        near = await best_relevances(kb, questions[name])
        print(f"{name:17}  {separation(near, await best_relevances(kb, foreign)):.3f}", flush=True)


if __name__ == "__main__":
    main()
