"""Two agents read the same index with different limits: `python agents.py QUESTION`."""

import sys
from pathlib import Path

from embedding import MiniLM
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_text_splitters import RecursiveCharacterTextSplitter

store = Chroma("docs", embedding_function=MiniLM(), persist_directory="index")
if not store.get(limit=1)["ids"]:
    pages = [
        Document(path.read_text(encoding="utf-8"), metadata={"source": str(path)})
        for path in sorted(Path("docs").rglob("*.md"))
    ]
    splitter = RecursiveCharacterTextSplitter(chunk_size=600, chunk_overlap=90)
    store.add_documents(splitter.split_documents(pages))

retrievers = {
    "triage": store.as_retriever(
        search_type="similarity_score_threshold",
        search_kwargs={"k": 2, "score_threshold": 0.3},
    ),
    "writer": store.as_retriever(search_kwargs={"k": 6}),
}
for agent, retriever in retrievers.items():
    for number, passage in enumerate(retriever.invoke(sys.argv[1]), 1):
        print(f"{agent} [{number}] {passage.metadata['source']}")
