"""Rank the documents of a collection for its questions: `python search.py CORPUS QUERIES`."""

import json
import sys
from pathlib import Path

from embedding import MiniLMDocumentEmbedder, MiniLMTextEmbedder
from haystack import Document, Pipeline
from haystack.components.joiners import DocumentJoiner
from haystack.components.retrievers import InMemoryBM25Retriever, InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

corpus, queries = (
    [json.loads(line) for line in Path(name).read_text().splitlines()] for name in sys.argv[1:3]
)
documents = [
    Document(content=f"{row['title']}\n{row['text']}", meta={"id": row["id"]}) for row in corpus
]
store = InMemoryDocumentStore(embedding_similarity_function="cosine")
store.write_documents(MiniLMDocumentEmbedder().run(documents)["documents"])

search = Pipeline()
search.add_component("embedder", MiniLMTextEmbedder())
search.add_component("vectors", InMemoryEmbeddingRetriever(store, top_k=50))
search.add_component("words", InMemoryBM25Retriever(store, top_k=50))
search.add_component("joiner", DocumentJoiner(join_mode="reciprocal_rank_fusion"))
search.connect("embedder.embedding", "vectors.query_embedding")
search.connect("vectors", "joiner")
search.connect("words", "joiner")
for query in queries:
    inputs = {"embedder": {"text": query["text"]}, "words": {"query": query["text"]}}
    passages = search.run(inputs)["joiner"]["documents"]
    print(json.dumps([query["id"], [passage.meta["id"] for passage in passages]]))
