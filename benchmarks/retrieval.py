"""How well each strategy finds, on test collections, at the defaults.

A collection is a folder with `corpus.jsonl` ({id, title, text}), `queries.jsonl` ({id, text}) and
`qrels.tsv`. Documents score by their best chunk; nDCG@10 with binary relevance.

    python benchmarks/retrieval.py FOLDER...
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from lorebind import Project

PUBLISHED = {
    "cranfield": {"lexical": 0.519, "similarity": 0.509, "rrf": 0.559, "hybrid": 0.562},
    "med": {"lexical": 0.696, "similarity": 0.788, "rrf": 0.786, "hybrid": 0.795},
}
"""BM25 (k1 1.5, b 0.75, Snowball), all-MiniLM-L6-v2 on whole documents, and their fusions, as
measured with bm25s and ONNX Runtime; the pipeline reproduces the figures published for SciFact."""

STRATEGIES = ("similarity", "lexical", "hybrid", "rrf", "mmr")


def main(folders: list[str]) -> None:
    collections = [Path(folder) for folder in folders]
    missing = [folder for folder in collections if not (folder / "corpus.jsonl").is_file()]
    if missing or not collections:
        named = ", ".join(map(str, missing)) or "none is named"
        sys.exit(f"benchmarks/retrieval.py needs folders with test collections; missing: {named}")
    print("collection   strategy     nDCG@10   elsewhere   recall@100   MRR     p50 ms")
    for folder in collections:
        with tempfile.TemporaryDirectory() as root:
            measure(folder, Path(root))


def measure(folder: Path, root: Path) -> None:
    for line in (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines():
        document = json.loads(line)
        title = json.dumps(document.get("title") or "")
        text = f"---\ntitle: {title}\n---\n{document['text']}\n"
        (root / f"{document['id']}.md").write_text(text, encoding="utf-8")
    sources = [{"type": "markdown_glob", "path": "*.md"}]
    declared: dict[str, Any] = {
        "name": "benchmark",
        "knowledge_bases": [
            {"id": "docs", "sources": sources},
        ],
    }
    rows = []
    with Project.build(declared, root=root) as project:
        project.ingest("docs")
        files = (folder / "queries.jsonl", folder / "qrels.tsv")
        rows += project.evaluate("docs", *files, strategies=["similarity", "lexical", "mmr"])
    declared["knowledge_bases"][0]["retrieval"] = {"fusion": {"method": "rrf"}}
    with Project.build(declared, root=root) as project:
        (row,) = project.evaluate("docs", *files, strategies=["hybrid"])
    by_name = {found.strategy: found for found in rows} | {"rrf": row}
    for name in STRATEGIES:
        found = by_name[name]
        elsewhere = PUBLISHED.get(folder.name, {}).get(name)
        print(
            f"{folder.name:12} {name:12} {found.ndcg_10:.3f}     "
            f"{f'{elsewhere:.3f}' if elsewhere else '-':11} {found.recall_100:.3f}        "
            f"{found.mrr:.3f}   {found.p50_ms:.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
