"""Two agents read the same index with different limits: `python agents.py QUESTION`."""

import sys
from pathlib import Path

from embedding import MiniLM
from llama_index.core import (
    QueryBundle,
    Settings,
    SimpleDirectoryReader,
    StorageContext,
    VectorStoreIndex,
    load_index_from_storage,
)
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor import SimilarityPostprocessor

Settings.embed_model = MiniLM()
Settings.node_parser = SentenceSplitter(chunk_size=200, chunk_overlap=30)
if Path("index").exists():
    index = load_index_from_storage(StorageContext.from_defaults(persist_dir="index"))
else:
    pages = SimpleDirectoryReader("docs", recursive=True, required_exts=[".md"]).load_data()
    index = VectorStoreIndex.from_documents(pages)
    index.storage_context.persist("index")

limits = {
    "triage": (
        index.as_retriever(similarity_top_k=2),
        [SimilarityPostprocessor(similarity_cutoff=0.3)],
    ),
    "writer": (index.as_retriever(similarity_top_k=6), []),
}
for agent, (retriever, postprocessors) in limits.items():
    nodes = retriever.retrieve(sys.argv[1])
    for postprocessor in postprocessors:
        nodes = postprocessor.postprocess_nodes(nodes, QueryBundle(sys.argv[1]))
    for number, node in enumerate(nodes, 1):
        print(f"{agent} [{number}] {node.metadata['file_name']}")
