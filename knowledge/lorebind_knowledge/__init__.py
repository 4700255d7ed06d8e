"""Knowledge: embedders, stores, sources, loaders, chunking, ingest and retrieval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.plugins import lazy_door, register_built_in

if TYPE_CHECKING:
    from lorebind_knowledge.chunking.base import Chunker
    from lorebind_knowledge.documents.listing import KnowledgeStats
    from lorebind_knowledge.embedders.base import Embedder, Fingerprint
    from lorebind_knowledge.embedders.sparse.base import SparseEmbedder
    from lorebind_knowledge.events import Event, Events, Extension
    from lorebind_knowledge.handle import KnowledgeHandle
    from lorebind_knowledge.index.index import Index
    from lorebind_knowledge.ingest.corpus import Corpus
    from lorebind_knowledge.ingest.report import Failure, IngestPlan, IngestReport, SourceReport
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase
    from lorebind_knowledge.records import (
        DocumentMatch,
        Partition,
        QueryResult,
        Record,
        Span,
        SparseVector,
    )
    from lorebind_knowledge.service import KnowledgeService
    from lorebind_knowledge.sources.base import Source, SourceItem
    from lorebind_knowledge.stores.base import VectorStore

__all__ = [
    "Chunker",
    "Corpus",
    "DocumentMatch",
    "Embedder",
    "Event",
    "Events",
    "Extension",
    "Failure",
    "Fingerprint",
    "Index",
    "IndexedKnowledgeBase",
    "IngestPlan",
    "IngestReport",
    "KnowledgeHandle",
    "KnowledgeService",
    "KnowledgeStats",
    "Partition",
    "QueryResult",
    "Record",
    "Source",
    "SourceItem",
    "SourceReport",
    "Span",
    "SparseEmbedder",
    "SparseVector",
    "VectorStore",
]

_MODULES = {
    "chunking.base": ("Chunker",),
    "documents.listing": ("KnowledgeStats",),
    "embedders.base": ("Embedder", "Fingerprint"),
    "embedders.sparse.base": ("SparseEmbedder",),
    "events": ("Event", "Events", "Extension"),
    "ingest.corpus": ("Corpus",),
    "ingest.report": ("Failure", "IngestPlan", "IngestReport", "SourceReport"),
    "handle": ("KnowledgeHandle",),
    "knowledge_base": ("IndexedKnowledgeBase",),
    "records": ("DocumentMatch", "Partition", "QueryResult", "Record", "Span", "SparseVector"),
    "service": ("KnowledgeService",),
    "sources.base": ("Source", "SourceItem"),
    "index.index": ("Index",),
    "stores.base": ("VectorStore",),
}

__getattr__ = lazy_door(__name__, _MODULES)

_STRATEGIES = (
    *("recursive_text_splitter", "token", "fixed", "markdown", "html", "json", "code", "semantic"),
)
register_built_in(
    {
        "embedders": {
            "local": "lorebind_knowledge.embedders.local",
            "openai": "lorebind_knowledge.embedders.openai",
            "hashing": "lorebind_knowledge.embedders.hashing",
            "none": "lorebind_knowledge.embedders.none",
            "langchain": "lorebind_knowledge.embedders.langchain",
            "fastembed": "lorebind_knowledge.embedders.fastembed",
        },
        "sparse_embedders": {
            "local": "lorebind_knowledge.embedders.sparse.local",
            "fastembed": "lorebind_knowledge.embedders.sparse.fastembed",
            "langchain": "lorebind_knowledge.embedders.sparse.langchain",
        },
        "vector_dbs": {
            "memory": "lorebind_knowledge.stores.memory",
            "sqlite": "lorebind_knowledge.stores.sqlite",
            "pgvector": "lorebind_knowledge.stores.pgvector.declaration",
            "qdrant": "lorebind_knowledge.stores.qdrant.declaration",
            "langchain": "lorebind_knowledge.stores.langchain.declaration",
        },
        "sources": {
            "markdown_glob": "lorebind_knowledge.sources.folder.files:MARKDOWN_GLOB",
            "file_glob": "lorebind_knowledge.sources.folder.files:FILE_GLOB",
            "url": "lorebind_knowledge.sources.web.url",
            "media_transcript": "lorebind_knowledge.sources.web.transcripts",
            "cloud_storage": "lorebind_knowledge.sources.cloud_storage",
            "inline": "lorebind_knowledge.sources.inline",
            "langchain": "lorebind_knowledge.sources.langchain",
        },
        "chunkers": dict.fromkeys(_STRATEGIES, "lorebind_knowledge.chunking.strategies"),
        "rerankers": {
            "langchain": "lorebind_knowledge.rerankers.langchain",
            "onnx": "lorebind_knowledge.rerankers.onnx",
            "fastembed": "lorebind_knowledge.rerankers.fastembed",
        },
        "extensions": {
            "python": "lorebind_knowledge.extensions.make",
            "prometheus": "lorebind_knowledge.extensions.prometheus",
            "logging": "lorebind_knowledge.extensions.logging",
        },
    }
)
