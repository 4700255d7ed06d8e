"""Index the folder docs on the first run, then answer questions: `python ask.py QUESTION`."""

import sys
from pathlib import Path

from embedding import MiniLM
from llama_index.core import (
    Settings,
    SimpleDirectoryReader,
    StorageContext,
    VectorStoreIndex,
    load_index_from_storage,
)
from llama_index.core.node_parser import SentenceSplitter

Settings.embed_model = MiniLM()
Settings.node_parser = SentenceSplitter(chunk_size=200, chunk_overlap=30)
if Path("index").exists():
    index = load_index_from_storage(StorageContext.from_defaults(persist_dir="index"))
else:
    pages = SimpleDirectoryReader("docs", recursive=True, required_exts=[".md"]).load_data()
    index = VectorStoreIndex.from_documents(pages)
    index.storage_context.persist("index")

retriever = index.as_retriever(similarity_top_k=3)
for question in sys.argv[1:]:
    for number, hit in enumerate(retriever.retrieve(question), 1):
        path = Path(hit.metadata["file_path"]).relative_to(Path.cwd())
        first = path.read_text(encoding="utf-8").count("\n", 0, hit.node.start_char_idx) + 1
        last = first + hit.text.count("\n")
        print(f"[{number}] {path}:{first}-{last}\n{hit.text}\n")
