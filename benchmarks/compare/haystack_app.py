"""Answer questions from a folder of Markdown files: `python haystack_app.py QUESTION …`.

Every run writes all passages, as in the tutorials of Haystack. Its `CacheChecker` would skip the
files that are known, and so those that were edited. `store.delete_all_documents()` before each run
would remove old passages; the index is incomplete until the run has ended.
"""

import sys
from pathlib import Path

from embeddings import HaystackDocumentEmbedder, HaystackTextEmbedder
from haystack import Pipeline
from haystack.components.builders import ChatPromptBuilder
from haystack.components.converters import TextFileToDocument
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.preprocessors import MarkdownHeaderSplitter
from haystack.components.writers import DocumentWriter
from haystack.dataclasses import ChatMessage
from haystack.document_stores.types import DuplicatePolicy
from haystack_integrations.components.retrievers.chroma import ChromaEmbeddingRetriever
from haystack_integrations.document_stores.chroma import ChromaDocumentStore

PROMPT = """Answer the question from these passages, and cite them as [1], [2] and so on.

{% for document in documents %}
[{{ loop.index }}] {{ document.content }}
{% endfor %}

Question: {{ question }}"""

store = ChromaDocumentStore("handbook", persist_path="index/chroma")

indexing = Pipeline()
indexing.add_component("converter", TextFileToDocument(store_full_path=True))
indexing.add_component("splitter", MarkdownHeaderSplitter())
indexing.add_component("embedder", HaystackDocumentEmbedder())
indexing.add_component("writer", DocumentWriter(store, policy=DuplicatePolicy.OVERWRITE))
indexing.connect("converter", "splitter")
indexing.connect("splitter", "embedder")
indexing.connect("embedder", "writer")
indexing.run({"converter": {"sources": list(Path("documents").rglob("*.md"))}})

asking = Pipeline()
asking.add_component("embedder", HaystackTextEmbedder())
asking.add_component("retriever", ChromaEmbeddingRetriever(store, top_k=3))
asking.add_component(
    "prompt", ChatPromptBuilder([ChatMessage.from_user(PROMPT)], required_variables="*")
)
asking.add_component("model", OpenAIChatGenerator(model="gpt-4o-mini"))
asking.connect("embedder.embedding", "retriever.query_embedding")
asking.connect("retriever.documents", "prompt.documents")
asking.connect("prompt.prompt", "model.messages")
for question in sys.argv[1:]:
    given = {"embedder": {"text": question}, "prompt": {"question": question}}
    result = asking.run(given, include_outputs_from={"retriever"})
    sources = [document.meta["file_path"] for document in result["retriever"]["documents"]]
    print(result["model"]["replies"][0].text, sources)
