"""Rank the documents of a collection for its questions: `python search.py CORPUS QUERIES`."""

import json
import sys
from pathlib import Path

from embedding import MiniLM
from langchain_core.documents import Document

from lorebind import Project

corpus, queries = (
    [json.loads(line) for line in Path(name).read_text().splitlines()] for name in sys.argv[1:3]
)
documents = [
    Document(f"{row['title']}\n{row['text']}", metadata={"source": row["id"]}) for row in corpus
]
with Project.build(embedder=MiniLM(), documents=documents) as project:
    project.ingest("documents")
    for query in queries:
        passages = project.query("documents", query["text"], top_k=50)
        print(json.dumps([query["id"], [passage.metadata["uri"] for passage in passages]]))
