"""Rank the documents of a collection for its questions: `python search.py CORPUS QUERIES`."""

import json
import sys
from pathlib import Path

from embedding import MiniLM
from llama_index.core import VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import TextNode
from llama_index.retrievers.bm25 import BM25Retriever

corpus, queries = (
    [json.loads(line) for line in Path(name).read_text().splitlines()] for name in sys.argv[1:3]
)
nodes = [TextNode(text=f"{row['title']}\n{row['text']}", id_=row["id"]) for row in corpus]
index = VectorStoreIndex(nodes, embed_model=MiniLM())
retriever = QueryFusionRetriever(
    [
        index.as_retriever(similarity_top_k=50),
        BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=50),
    ],
    llm=MockLLM(),
    mode="reciprocal_rerank",
    num_queries=1,
    similarity_top_k=50,
)
for query in queries:
    hits = retriever.retrieve(query["text"])
    print(json.dumps([query["id"], [hit.node.node_id for hit in hits]]))
