"""`knowledge_bases:` sources, how they are cut, and how they are searched."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import ConfigDict, Field, model_validator

from lorebind_knowledge.declarations.base import Declaration, Fault, Id, RefusedError
from lorebind_knowledge.declarations.values import FilePattern, JsonMap, MetadataMap


class _GlobSource(Declaration):
    label: ClassVar[str] = "source"
    kind_key: ClassVar[str] = "type"

    # The same as `_has_a_pattern`.
    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": ["path"], "properties": {"path": {"type": "string"}}},
                {"required": ["paths"], "properties": {"paths": {"minItems": 1}}},
            ]
        }
    )

    path: FilePattern | None = Field(
        None, description="A file or glob pattern, relative to the project folder."
    )
    paths: list[FilePattern] = Field(
        default_factory=list, description="Several files or patterns, beside or instead of `path`."
    )
    exclude: list[FilePattern] = Field(
        default_factory=list, description="Patterns of files to leave out."
    )

    @model_validator(mode="after")
    def _has_a_pattern(self) -> _GlobSource:
        if not self.patterns:
            raise RefusedError([Fault("the source names no files", "write 'path' or 'paths'")])
        return self

    @property
    def patterns(self) -> list[str]:
        """All patterns of the source, in the order written: `path`, then `paths`."""
        return ([self.path] if self.path is not None else []) + self.paths


class MarkdownGlobSource(_GlobSource):
    """Markdown files of the project folder."""

    type: Literal["markdown_glob"] = Field(description="Markdown files by pattern.")


class FileGlobSource(_GlobSource):
    """Files of any supported format of the project folder."""

    type: Literal["file_glob"] = Field(description="Files of any supported format by pattern.")


SourceDeclaration: TypeAlias = Annotated[
    MarkdownGlobSource | FileGlobSource, Field(discriminator="type")
]
"""One of the sources, chosen by `type`."""

DEFAULT_SIZE = 800
DEFAULT_OVERLAP = 120


class ChunkingDeclaration(Declaration):
    """How documents are cut into passages."""

    strategy: Literal["recursive_text_splitter"] = Field(
        "recursive_text_splitter",
        description="Paragraphs are kept together, then lines, sentences, words.",
    )
    size: int = Field(
        DEFAULT_SIZE, ge=64, le=8192, description="The most that a chunk may hold, in units."
    )
    overlap: int = Field(
        default_factory=lambda data: (
            DEFAULT_OVERLAP if data["size"] > DEFAULT_OVERLAP else data["size"] // 8
        ),
        ge=0,
        description="How much of a chunk its successor repeats, less than size; "
        "120 when left out, or an eighth of a size that is not larger.",
    )
    unit: Literal["characters"] = Field("characters", description="What size and overlap count.")

    @model_validator(mode="after")
    def _overlap_fits(self) -> ChunkingDeclaration:
        if self.overlap >= self.size:
            hint = f"expected 0 to {self.size - 1}, less than the size of {self.size}"
            raise RefusedError([Fault(f"overlap is {self.overlap}", hint, ("overlap",))])
        return self


class RetrievalDeclaration(Declaration):
    """How a knowledge base is searched, and what a prompt is given of it."""

    strategy: Literal["similarity"] = Field(
        "similarity", description="Nearest by the cosine of the embeddings."
    )
    top_k: int = Field(5, ge=1, le=50, description="The most passages to return.")
    min_score: float | None = Field(
        None, ge=0, le=1, description="Passages that score lower are left out."
    )
    max_tokens: int | None = Field(
        None, ge=1, description="The most tokens that the passages may take in a prompt."
    )
    filters: JsonMap = Field(
        default_factory=dict, description="Conditions on the metadata of the passages."
    )
    inject_as: str | None = Field(
        None, description="A label for the block of passages in the prompt."
    )
    fallback: str | None = Field(None, description="The text used when too little is found.")
    min_results: int = Field(
        1, ge=1, le=50, description="Fewer passages than this count as nothing found."
    )


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
    ingest: Literal["manual"] = Field("manual", description="When it is ingested: when asked to.")
    sources: list[SourceDeclaration] = Field(
        min_length=1, description="Where its documents come from."
    )
    chunking: ChunkingDeclaration = Field(
        default_factory=ChunkingDeclaration, description="How documents are cut."
    )
    retrieval: RetrievalDeclaration = Field(
        default_factory=RetrievalDeclaration,
        description="How it is searched where no binding says otherwise.",
    )
    metadata: MetadataMap = Field(
        default_factory=dict, description="Added to the metadata of every passage."
    )
