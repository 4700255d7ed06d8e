"""`preprocess:` and `chunking:`, how documents are cleaned and split into chunks."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from lorebind_config.declarations.base import Declaration
from lorebind_config.declarations.places import Place


class HtmlDeclaration(Declaration):
    """Settings for converting HTML pages to text."""

    extractor: Literal["built_in", "trafilatura"] = Field(
        "built_in",
        description="The method that finds the main content of a page. `trafilatura` (extra "
        "`html`) is better for news and blogs, and worse for documentation.",
    )


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
    Place("chunkers", ChunkerBase, default="recursive_text_splitter"),
]
"""A chunking strategy, selected by `strategy`: built in or from a plugin."""
