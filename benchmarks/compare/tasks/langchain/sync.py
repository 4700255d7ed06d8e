"""Bring the index up to date with the folder docs, then answer: `python sync.py QUESTION`."""

import sys
from pathlib import Path

from embedding import MiniLM
from langchain_chroma import Chroma
from langchain_classic.indexes import SQLRecordManager
from langchain_core.documents import Document
from langchain_core.indexing import index
from langchain_text_splitters import RecursiveCharacterTextSplitter

store = Chroma("docs", embedding_function=MiniLM(), persist_directory="index")
records = SQLRecordManager("chroma/docs", db_url="sqlite:///records.db")
records.create_schema()
pages = [
    Document(path.read_text(encoding="utf-8"), metadata={"source": str(path)})
    for path in sorted(Path("docs").rglob("*.md"))
]
splitter = RecursiveCharacterTextSplitter(chunk_size=600, chunk_overlap=90)
passages = splitter.split_documents(pages)
index(passages, records, store, cleanup="full", source_id_key="source", key_encoder="sha256")

for question in sys.argv[1:]:
    for number, passage in enumerate(store.similarity_search(question, k=3), 1):
        print(f"[{number}] {passage.metadata['source']}\n{passage.page_content}\n")
