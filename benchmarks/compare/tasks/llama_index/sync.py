"""Bring the index up to date with the folder docs, then answer: `python sync.py QUESTION`."""

import sys
from pathlib import Path

import chromadb
from embedding import MiniLM
from llama_index.core import SimpleDirectoryReader, VectorStoreIndex
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.vector_stores.chroma import ChromaVectorStore

collection = chromadb.PersistentClient("index").get_or_create_collection("docs")
store = ChromaVectorStore(chroma_collection=collection)
pipeline = IngestionPipeline(
    transformations=[SentenceSplitter(chunk_size=200, chunk_overlap=30), MiniLM()],
    docstore=SimpleDocumentStore(),
    docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
    vector_store=store,
)
if Path("pipeline").exists():
    pipeline.load("pipeline")
reader = SimpleDirectoryReader("docs", recursive=True, required_exts=[".md"], filename_as_id=True)
pipeline.run(documents=reader.load_data())
pipeline.persist("pipeline")

retriever = VectorStoreIndex.from_vector_store(store, MiniLM()).as_retriever(similarity_top_k=3)
for question in sys.argv[1:]:
    for number, hit in enumerate(retriever.retrieve(question), 1):
        print(f"[{number}] {hit.metadata['file_name']}\n{hit.text}\n")
