"""Answer questions from a folder of Markdown files: `python llama_index_app.py QUESTION …`.

If it is killed after `run` has written to Chroma and before `persist`, all passages are there twice
after the next run: the pipeline does not know the first ones, and their ids are random.
"""

import sys
from pathlib import Path

import chromadb
from embeddings import llama_index_embeddings
from llama_index.core import Settings, SimpleDirectoryReader, VectorStoreIndex
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.node_parser import MarkdownNodeParser
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.llms.openai import OpenAI
from llama_index.vector_stores.chroma import ChromaVectorStore

Settings.llm = OpenAI(model="gpt-4o-mini")
Settings.embed_model = llama_index_embeddings()

collection = chromadb.PersistentClient("index/chroma").get_or_create_collection("handbook")
store = ChromaVectorStore(chroma_collection=collection)
pipeline = IngestionPipeline(
    transformations=[MarkdownNodeParser(), Settings.embed_model],
    docstore=SimpleDocumentStore(),
    docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
    vector_store=store,
)
if Path("index/pipeline").exists():
    pipeline.load("index/pipeline")
reader = SimpleDirectoryReader(
    "documents", recursive=True, required_exts=[".md"], filename_as_id=True
)
pipeline.run(documents=reader.load_data())
pipeline.persist("index/pipeline")

engine = VectorStoreIndex.from_vector_store(store).as_query_engine(similarity_top_k=3)
for question in sys.argv[1:]:
    answer = engine.query(question)
    print(answer, [found.metadata["file_path"] for found in answer.source_nodes])
