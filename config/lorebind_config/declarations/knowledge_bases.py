"""`knowledge_bases:` documents that are cleaned, split, indexed and searched together."""

import re
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from lorebind_config.declarations.base import Declaration, Id, OrForm, empty_list, refused
from lorebind_config.declarations.embedders import OFF
from lorebind_config.declarations.kinds import REGISTRIES, KindRegistry
from lorebind_config.declarations.retrieval import Level, RetrievalDeclaration
from lorebind_config.declarations.sources import SourceDeclaration, ValueType
from lorebind_config.declarations.tool_filters import ToolFilters, declared_type, type_of_value
from lorebind_config.declarations.values import GlobPattern, MetadataMap
from lorebind_config.errors import did_you_mean
from lorebind_config.languages import AUTO, SNOWBALL, UNSPACED


class HtmlDeclaration(Declaration):
    """Settings for converting HTML pages to text."""

    extractor: Literal["built_in", "trafilatura"] = Field(
        "built_in",
        description="The method that finds the main content of a page. `trafilatura` (extra "
        "`html`) is better for news and blogs, and worse for documentation.",
    )


class PdfDeclaration(Declaration):
    """Settings for converting PDF to text."""

    tables: bool = Field(
        False,
        description="Whether to read tables that have lines around their cells as rows, as in "
        "other formats (extra `tables`). It takes about a tenth of a second for each page with "
        "lines.",
    )


class DocumentTransformBase(Declaration):
    """The base of all steps between loading and chunking, including those of plugins."""

    label: ClassVar[str] = "step"
    kind_key: ClassVar[str] = "type"

    documents: list[GlobPattern] = Field(
        default_factory=empty_list,
        description="Patterns of the uris of the documents that go through the step, such as "
        "`hr/**`. By default all documents.",
    )
    version: str = Field(
        "",
        description="Any text. If you change it, the documents go through the step again, for "
        "example because a file that the code reads has changed.",
    )


AnyTransform: TypeAlias = Annotated[
    DocumentTransformBase,
    KindRegistry("document_transforms", DocumentTransformBase, default="function"),
]
"""A step between loading and chunking, selected by `type`: a function or from a plugin."""


class PreprocessDeclaration(Declaration):
    """Settings for cleaning documents before they are split into chunks."""

    dedupe: bool = Field(
        True,
        description="Whether to return a text only once if several documents of the knowledge base "
        "contain it.",
    )
    remove_html: bool = Field(
        False,
        description="Whether to remove HTML tags from Markdown and plain text. Tags of HTML pages "
        "are always removed.",
    )
    html: HtmlDeclaration = Field(
        default_factory=HtmlDeclaration, description="The conversion of HTML pages to text."
    )
    pdf: PdfDeclaration = Field(
        default_factory=PdfDeclaration, description="The conversion of PDF to text."
    )
    steps: list[AnyTransform] = Field(
        default_factory=empty_list,
        description="Code that redacts, enriches or splits documents after they are loaded. Steps "
        "run in the order of the list. No passage contains text that they remove.",
    )


class ChunkerBase(Declaration):
    """The base of all chunking strategies, including those of plugins."""

    label: ClassVar[str] = "chunking"
    kind_key: ClassVar[str] = "strategy"

    @property
    def exceeds_default(self) -> bool:
        """Whether chunks can be larger than those of the default size."""
        return False


AnyChunking: TypeAlias = Annotated[
    ChunkerBase,
    KindRegistry("chunkers", ChunkerBase, default="recursive_text_splitter"),
]
"""A chunking strategy, selected by `strategy`: built in or from a plugin."""


_LANGUAGES = sorted([AUTO, *SNOWBALL, *UNSPACED])


def _known_language(value: str) -> str:
    if value not in _LANGUAGES:
        raise refused(f"unknown language {value!r}", did_you_mean(value, _LANGUAGES))
    return value


Language = Annotated[
    str,
    AfterValidator(_known_language),
    WithJsonSchema({"type": "string", "enum": _LANGUAGES}),
]
"""A language code, or `auto`."""


def _off(value: Any) -> Any:
    return OFF if value is False else value  # YAML reads an unquoted `off` as false


class KnowledgeBaseDeclaration(Declaration):
    """Documents that are indexed together and searched together."""

    label: ClassVar[str] = "knowledge base"

    id: Id = Field(description="The id by which bindings and queries refer to the knowledge base.")
    description: str = Field(
        "",
        description="The subject of the documents. Models see it as the description of a search "
        "tool.",
    )
    embedder: str | None = Field(
        None,
        description="The id of an embedder, or `none`: no vectors, only words and terms. By "
        "default, the embedder with the id `default`, else the first embedder.",
    )
    sparse: Annotated[str | None, BeforeValidator(_off), OrForm({"const": False})] = Field(
        None,
        description="The sparse embedder, whose terms are searched too: the id of one, `local` for "
        "the built-in one, which knows English only, or `off`. By default `local` if the embedder "
        "has `provider: local` or there are no vectors, else `off`.",
    )
    vector_db: str | None = Field(
        None,
        description="The id of a vector database. By default, the one with the id `default`, else "
        "the first.",
    )
    keep: int = Field(
        1,
        ge=0,
        le=10,
        description="The number of earlier indexes that stay after `reindex`, `replace`, `unpack` "
        "or a change of the embedder, so that `lorebind knowledge rollback` can go back. Each "
        "needs the disk space of an index. 0: none.",
    )
    ingest: Literal["manual", "on_start"] = Field(
        "manual",
        description="The time of the ingest. `manual`: only on request; `on_start`: also "
        "before the knowledge base is first used.",
    )
    sources: list[SourceDeclaration] = Field(
        default_factory=empty_list,
        description="The sources of the documents. Without any, the knowledge base consists of the "
        "documents that are added: by `lorebind knowledge add`, in Python, or over the API.",
    )
    language: Language = Field(
        AUTO,
        description="The language of the documents, as an ISO 639-1 code such as `en` or `de`. "
        "Searches by words find other forms of a word too. `auto` detects the language of each "
        "document.",
    )
    chunking: AnyChunking = Field(
        default_factory=lambda: REGISTRIES["chunkers"].read({}),
        description="The strategy for splitting documents into chunks.",
    )
    preprocess: PreprocessDeclaration = Field(
        default_factory=PreprocessDeclaration,
        description="The cleaning of documents before they are split into chunks.",
    )
    retrieval: RetrievalDeclaration = Field(
        default_factory=RetrievalDeclaration,
        description="Settings for searches and prompts. A binding can override each field.",
    )
    weak_below: Level = Field(
        None,
        description="The relevance of the best passage below which a match is weak. By default the "
        "`weak_below` of the embedder if the relevance is the cosine, and none for other scores. "
        "The `weak_below` of a reranker precedes it. null: no match is weak.",
    )
    metadata: MetadataMap = Field(
        default_factory=dict,
        description="Values added to the metadata of every passage, for example to filter by.",
    )
    tool_filters: ToolFilters = Field(
        default_factory=empty_list,
        description="Keys of the metadata that become optional arguments of the tools with which "
        "models search and read the knowledge base. Dates become two, such as `modified_from` and "
        "`modified_to`.",
    )

    @model_validator(mode="after")
    def _has_distinct_arguments(self) -> Self:
        for at, key in enumerate(self.tool_filters):
            base = re.sub("_(from|to)$", "", key)
            if base != key and base in self.tool_filters and self.type_of(base) == "date":
                message = f"{key!r} is also an end of the dates of {base!r}"
                raise refused(message, "list only one of the two", "tool_filters", at)
        return self

    def type_of(self, key: str) -> ValueType | None:
        """Return the declared type of the values of a key of the metadata; None if unknown."""
        if key in self.metadata:
            return type_of_value(self.metadata[key])
        return declared_type(key, self.sources)
