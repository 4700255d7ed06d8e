"""Index the folder docs on the first run, then answer questions: `python ask.py QUESTION`."""

import sys
from pathlib import Path

from embedding import MiniLMDocumentEmbedder, MiniLMTextEmbedder
from haystack import Pipeline
from haystack.components.converters import TextFileToDocument
from haystack.components.preprocessors import RecursiveDocumentSplitter
from haystack.components.writers import DocumentWriter
from haystack_integrations.components.retrievers.chroma import ChromaEmbeddingRetriever
from haystack_integrations.document_stores.chroma import ChromaDocumentStore

store = ChromaDocumentStore("docs", persist_path="index")
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
asking.add_component("retriever", ChromaEmbeddingRetriever(store, top_k=3))
asking.connect("embedder.embedding", "retriever.query_embedding")
for question in sys.argv[1:]:
    passages = asking.run({"embedder": {"text": question}})["retriever"]["documents"]
    for number, passage in enumerate(passages, 1):
        path, start = passage.meta["file_path"], passage.meta["split_idx_start"]
        first = Path(path).read_text(encoding="utf-8").count("\n", 0, start) + 1
        last = first + passage.content.count("\n")
        print(f"[{number}] {path}:{first}-{last}\n{passage.content}\n")
