"""Answer questions from a folder of Markdown files: `python langchain_app.py QUESTION …`."""

import sys
from pathlib import Path

from embeddings import langchain_embeddings
from langchain_chroma import Chroma
from langchain_classic.indexes import SQLRecordManager
from langchain_core.documents import Document
from langchain_core.indexing import index
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from langchain_text_splitters import MarkdownHeaderTextSplitter

PROMPT = """Answer the question from these passages, and cite them as [1], [2] and so on.

{context}

Question: {question}"""

Path("index").mkdir(exist_ok=True)
store = Chroma(
    "handbook", embedding_function=langchain_embeddings(), persist_directory="index/chroma"
)
records = SQLRecordManager("chroma/handbook", db_url="sqlite:///index/records.db")
records.create_schema()

splitter = MarkdownHeaderTextSplitter([("#", "title"), ("##", "section")], strip_headers=False)
passages = []
for path in Path("documents").rglob("*.md"):
    for passage in splitter.split_text(path.read_text(encoding="utf-8")):
        metadata = {**passage.metadata, "source": str(path)}
        passages.append(Document(passage.page_content, metadata=metadata))
index(passages, records, store, cleanup="full", source_id_key="source", key_encoder="sha256")

retriever = store.as_retriever(search_kwargs={"k": 3})
chain = ChatPromptTemplate.from_template(PROMPT) | ChatOpenAI(model="gpt-4o-mini")
for question in sys.argv[1:]:
    found = retriever.invoke(question)
    context = "\n\n".join(f"[{n}] {passage.page_content}" for n, passage in enumerate(found, 1))
    answer = chain.invoke({"context": context, "question": question})
    print(answer.text, [passage.metadata["source"] for passage in found])
