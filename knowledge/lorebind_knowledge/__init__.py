"""Knowledge: embedders, stores, sources, loaders, chunking, ingest and retrieval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.plugins import lazy_door, register_built_in

if TYPE_CHECKING:
    from lorebind_knowledge.chunking.base import Chunker as Chunker
    from lorebind_knowledge.documents.listing import KnowledgeStats as KnowledgeStats
    from lorebind_knowledge.embedders.base import Embedder as Embedder
    from lorebind_knowledge.embedders.base import Fingerprint as Fingerprint
    from lorebind_knowledge.embedders.sparse.base import SparseEmbedder as SparseEmbedder
    from lorebind_knowledge.events import Event as Event
    from lorebind_knowledge.events import Events as Events
    from lorebind_knowledge.events import Extension as Extension
    from lorebind_knowledge.handle import KnowledgeHandle as KnowledgeHandle
    from lorebind_knowledge.index.index import Index as Index
    from lorebind_knowledge.ingest.corpus import Corpus as Corpus
    from lorebind_knowledge.ingest.report import Failure as Failure
    from lorebind_knowledge.ingest.report import IngestPlan as IngestPlan
    from lorebind_knowledge.ingest.report import IngestReport as IngestReport
    from lorebind_knowledge.ingest.report import SourceReport as SourceReport
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase as IndexedKnowledgeBase
    from lorebind_knowledge.records import DocumentMatch as DocumentMatch
    from lorebind_knowledge.records import Partition as Partition
    from lorebind_knowledge.records import QueryResult as QueryResult
    from lorebind_knowledge.records import Record as Record
    from lorebind_knowledge.records import Span as Span
    from lorebind_knowledge.records import SparseVector as SparseVector
    from lorebind_knowledge.service import KnowledgeService as KnowledgeService
    from lorebind_knowledge.sources.base import Source as Source
    from lorebind_knowledge.sources.base import SourceItem as SourceItem
    from lorebind_knowledge.stores.base import VectorStore as VectorStore
else:
    __all__, __getattr__ = lazy_door(
        __name__,
        {
            ".chunking.base": "Chunker",
            ".documents.listing": "KnowledgeStats",
            ".embedders.base": "Embedder Fingerprint",
            ".embedders.sparse.base": "SparseEmbedder",
            ".events": "Event Events Extension",
            ".handle": "KnowledgeHandle",
            ".index.index": "Index",
            ".ingest.corpus": "Corpus",
            ".ingest.report": "Failure IngestPlan IngestReport SourceReport",
            ".knowledge_base": "IndexedKnowledgeBase",
            ".records": "DocumentMatch Partition QueryResult Record Span SparseVector",
            ".service": "KnowledgeService",
            ".sources.base": "Source SourceItem",
            ".stores.base": "VectorStore",
        },
    )

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
        "document_transforms": {"function": "lorebind_knowledge.transforms.functions"},
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
        "engines": {"distributed": "lorebind_knowledge.scale.procrastinate"},
    }
)
