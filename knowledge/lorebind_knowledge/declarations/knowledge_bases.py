"""`knowledge_bases:` documents that are indexed together and searched together."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from lorebind_knowledge.declarations.base import Declaration, Id
from lorebind_knowledge.declarations.chunking import AnyChunking, ChunkingDeclaration
from lorebind_knowledge.declarations.preprocess import PreprocessDeclaration
from lorebind_knowledge.declarations.retrieval import RetrievalDeclaration
from lorebind_knowledge.declarations.sources import SourceDeclaration
from lorebind_knowledge.declarations.values import MetadataMap


class KnowledgeBaseDeclaration(Declaration):
    """Documents that are indexed together and searched together."""

    label: ClassVar[str] = "knowledge base"

    id: Id = Field(description="The name by which bindings and queries refer to it.")
    description: str = Field("", description="What it is about.")
    embedder: str | None = Field(
        None, description="The id of an embedder; left out, the project's default."
    )
    vector_db: str | None = Field(
        None, description="The id of a vector database; left out, the project's default."
    )
    ingest: Literal["manual", "on_start"] = Field(
        "manual",
        description="When it is ingested: only when asked to, or also before its first use.",
    )
    sources: list[SourceDeclaration] = Field(
        min_length=1, description="Where its documents come from."
    )
    chunking: AnyChunking = Field(
        default_factory=ChunkingDeclaration, description="How documents are cut."
    )
    preprocess: PreprocessDeclaration = Field(
        default_factory=PreprocessDeclaration, description="What is done to them before."
    )
    retrieval: RetrievalDeclaration = Field(
        default_factory=RetrievalDeclaration,
        description="How it is searched where no binding says otherwise.",
    )
    metadata: MetadataMap = Field(
        default_factory=dict, description="Added to the metadata of every passage."
    )
