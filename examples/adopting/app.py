"""Answers questions about a handbook: `python app.py fill`, then `python app.py "a question"`."""

import sys
from pathlib import Path

from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_text_splitters import RecursiveCharacterTextSplitter
from parts import ChatModel, WordEmbeddings

store = Chroma("handbook", WordEmbeddings(), persist_directory="chroma")
prompt = ChatPromptTemplate.from_template("Answer from this context:\n\n{context}\n\n{question}")


def fill() -> None:
    documents = [
        Document(path.read_text(encoding="utf-8"), metadata={"source": str(path)})
        for path in sorted(Path("handbook").glob("*.md"))
    ]
    splitter = RecursiveCharacterTextSplitter(chunk_size=120, chunk_overlap=0)
    chunks = splitter.split_documents(documents)
    store.reset_collection()  # otherwise, edited documents would be stored twice
    store.add_documents(chunks)
    print(f"embedded {len(chunks)} passages")


def ask(question: str) -> None:
    documents = store.similarity_search(question, k=2)
    context = "\n\n".join(document.page_content for document in documents)
    print((prompt | ChatModel()).invoke({"context": context, "question": question}).text)


if __name__ == "__main__":
    fill() if sys.argv[1:] == ["fill"] else ask(sys.argv[1])
