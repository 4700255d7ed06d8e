"""Rank the documents of a collection for its questions: `python search.py CORPUS QUERIES`."""

import json
import sys
from pathlib import Path

from embedding import MiniLM
from langchain_chroma import Chroma
from langchain_classic.retrievers import EnsembleRetriever
from langchain_community.retrievers import BM25Retriever
from langchain_core.documents import Document

corpus, queries = (
    [json.loads(line) for line in Path(name).read_text().splitlines()] for name in sys.argv[1:3]
)
documents = [
    Document(f"{row['title']}\n{row['text']}", metadata={"id": row["id"]}) for row in corpus
]
words = BM25Retriever.from_documents(documents, k=50)
vectors = Chroma.from_documents(documents, MiniLM()).as_retriever(search_kwargs={"k": 50})
retriever = EnsembleRetriever(retrievers=[words, vectors], weights=[0.5, 0.5])
for query in queries:
    passages = retriever.invoke(query["text"])
    print(json.dumps([query["id"], [passage.metadata["id"] for passage in passages]]))
