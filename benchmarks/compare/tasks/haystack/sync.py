"""Bring the index up to date with the folder docs, then answer: `python sync.py QUESTION`.

The id of a passage is a hash of its content and metadata, so the ids tell what is new and what is
no longer in the folder.
"""

import sys
from pathlib import Path

from embedding import MiniLMDocumentEmbedder, MiniLMTextEmbedder
from haystack import Pipeline
from haystack.components.converters import TextFileToDocument
from haystack.components.preprocessors import RecursiveDocumentSplitter
from haystack_integrations.components.retrievers.chroma import ChromaEmbeddingRetriever
from haystack_integrations.document_stores.chroma import ChromaDocumentStore

store = ChromaDocumentStore("docs", persist_path="index")
splitter = RecursiveDocumentSplitter(
    split_length=600, split_overlap=90, split_unit="char", separators=["\n\n", "\n", " "]
)
reading = Pipeline()
reading.add_component("converter", TextFileToDocument(store_full_path=True))
reading.add_component("splitter", splitter)
reading.connect("converter", "splitter")
pages = sorted(Path("docs").rglob("*.md"))
passages = reading.run({"converter": {"sources": pages}})["splitter"]["documents"]

stored = {passage.id for passage in store.filter_documents()}
new = [passage for passage in passages if passage.id not in stored]
store.write_documents(MiniLMDocumentEmbedder().run(new)["documents"])
if gone := stored - {passage.id for passage in passages}:
    store.delete_documents(list(gone))

asking = Pipeline()
asking.add_component("embedder", MiniLMTextEmbedder())
asking.add_component("retriever", ChromaEmbeddingRetriever(store, top_k=3))
asking.connect("embedder.embedding", "retriever.query_embedding")
for question in sys.argv[1:]:
    hits = asking.run({"embedder": {"text": question}})["retriever"]["documents"]
    for number, passage in enumerate(hits, 1):
        print(f"[{number}] {passage.meta['file_path']}\n{passage.content}\n")
