"""Two agents read the same index with different limits: `python agents.py QUESTION`.

The retriever has no threshold, so the scores are compared here.
"""

import sys
from pathlib import Path

from embedding import MiniLMDocumentEmbedder, MiniLMTextEmbedder
from haystack import Pipeline
from haystack.components.converters import TextFileToDocument
from haystack.components.preprocessors import RecursiveDocumentSplitter
from haystack.components.writers import DocumentWriter
from haystack_integrations.components.retrievers.chroma import ChromaEmbeddingRetriever
from haystack_integrations.document_stores.chroma import ChromaDocumentStore

store = ChromaDocumentStore("docs", persist_path="index", distance_function="cosine")
if not store.count_documents():
    splitter = RecursiveDocumentSplitter(
        split_length=600, split_overlap=90, split_unit="char", separators=["\n\n", "\n", " "]
    )
    indexing = Pipeline()
    indexing.add_component("converter", TextFileToDocument(store_full_path=True))
    indexing.add_component("splitter", splitter)
    indexing.add_component("embedder", MiniLMDocumentEmbedder())
    indexing.add_component("writer", DocumentWriter(store))
    indexing.connect("converter", "splitter")
    indexing.connect("splitter", "embedder")
    indexing.connect("embedder", "writer")
    indexing.run({"converter": {"sources": sorted(Path("docs").rglob("*.md"))}})

asking = Pipeline()
asking.add_component("embedder", MiniLMTextEmbedder())
asking.add_component("retriever", ChromaEmbeddingRetriever(store))
asking.connect("embedder.embedding", "retriever.query_embedding")
limits = {"triage": {"top_k": 2, "threshold": 0.3}, "writer": {"top_k": 6, "threshold": None}}
for agent, limit in limits.items():
    inputs = {"embedder": {"text": sys.argv[1]}, "retriever": {"top_k": limit["top_k"]}}
    passages = asking.run(inputs)["retriever"]["documents"]
    if limit["threshold"] is not None:
        # The score of this store is the cosine distance.
        passages = [passage for passage in passages if 1 - passage.score >= limit["threshold"]]
    for number, passage in enumerate(passages, 1):
        print(f"{agent} [{number}] {passage.meta['file_path']}")
