"""`knowledge_bases:` documents that are indexed together and searched together."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from lorebind_knowledge.bm25.languages import AUTO, SNOWBALL, UNSPACED
from lorebind_knowledge.declarations.base import Declaration, Fault, Id, RefusedError
from lorebind_knowledge.declarations.chunking import AnyChunking
from lorebind_knowledge.declarations.places import PLACES
from lorebind_knowledge.declarations.preprocess import PreprocessDeclaration
from lorebind_knowledge.declarations.retrieval import RetrievalDeclaration
from lorebind_knowledge.declarations.sources import SourceDeclaration
from lorebind_knowledge.declarations.values import MetadataMap
from lorebind_knowledge.errors import did_you_mean

_LANGUAGES = sorted([AUTO, *SNOWBALL, *UNSPACED])


def _known_language(value: str) -> str:
    if value not in _LANGUAGES:
        raise RefusedError([Fault(f"unknown language {value!r}", did_you_mean(value, _LANGUAGES))])
    return value


Language = Annotated[
    str,
    AfterValidator(_known_language),
    WithJsonSchema({"type": "string", "enum": _LANGUAGES}),
]
"""A code, or `auto`."""


class KnowledgeBaseDeclaration(Declaration):
    """Documents that are indexed together and searched together."""

    label: ClassVar[str] = "knowledge base"

    id: Id = Field(description="The name by which bindings and queries refer to it.")
    description: str = Field("", description="What it is about.")
    embedder: str | None = Field(
        None,
        description="The id of an embedder. By default the one called `default`, else the first.",
    )
    vector_db: str | None = Field(
        None,
        description="The id of a vector database. By default the one called `default`, else the "
        "first.",
    )
    ingest: Literal["manual", "on_start"] = Field(
        "manual",
        description="When it is ingested: only when asked to, or also before its first use.",
    )
    sources: list[SourceDeclaration] = Field(
        default_factory=list,
        min_length=1,
        description="Where its documents come from. Left out only if its vector database is one "
        "that others fill.",
    )
    language: Language = Field(
        AUTO,
        description="The language of its documents, by its code in ISO 639-1 such as `en` or `de`. "
        "A word is found in its other forms too. `auto` detects the language of each document.",
    )
    chunking: AnyChunking = Field(
        default_factory=lambda: PLACES["chunkers"].read({}), description="How documents are cut."
    )
    preprocess: PreprocessDeclaration = Field(
        default_factory=PreprocessDeclaration,
        description="What is done to its documents before they are cut.",
    )
    retrieval: RetrievalDeclaration = Field(
        default_factory=RetrievalDeclaration,
        description="How it is searched. A binding can override each field.",
    )
    metadata: MetadataMap = Field(
        default_factory=dict, description="Added to the metadata of every passage."
    )
