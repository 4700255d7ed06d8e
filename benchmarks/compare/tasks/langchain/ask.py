"""Index the folder docs on the first run, then answer questions: `python ask.py QUESTION`."""

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
    splitter = RecursiveCharacterTextSplitter(
        chunk_size=600, chunk_overlap=90, add_start_index=True
    )
    store.add_documents(splitter.split_documents(pages))

for question in sys.argv[1:]:
    for number, passage in enumerate(store.similarity_search(question, k=3), 1):
        source, start = passage.metadata["source"], passage.metadata["start_index"]
        first = Path(source).read_text(encoding="utf-8").count("\n", 0, start) + 1
        last = first + passage.page_content.count("\n")
        print(f"[{number}] {source}:{first}-{last}\n{passage.page_content}\n")
