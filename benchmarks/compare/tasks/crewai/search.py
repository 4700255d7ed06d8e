"""Rank the documents of a collection for its questions: `python search.py CORPUS QUERIES`."""

import json
import sys
from pathlib import Path

from crewai.knowledge.knowledge import Knowledge
from crewai.knowledge.source.string_knowledge_source import StringKnowledgeSource
from embedding import EMBEDDER

corpus, queries = (
    [json.loads(line) for line in Path(name).read_text().splitlines()] for name in sys.argv[1:3]
)
ids = {f"{row['title']}\n{row['text']}": row["id"] for row in corpus}
sources = [StringKnowledgeSource(content=text, chunk_size=20_000) for text in ids]
knowledge = Knowledge(collection_name="docs", sources=sources, embedder=EMBEDDER)
knowledge.add_sources()
for query in queries:
    hits = knowledge.query([query["text"]], results_limit=50, score_threshold=0.0)
    print(json.dumps([query["id"], [ids[hit["content"]] for hit in hits]]))
