"""`preprocess:` what is done to documents before they are cut."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from lorebind_knowledge.declarations.base import Declaration


class HtmlDeclaration(Declaration):
    """How HTML pages become text."""

    extractor: Literal["built_in", "trafilatura"] = Field(
        "built_in",
        description="What finds the main content of a page. `trafilatura` (extra `html`) is better "
        "at news and blogs, and worse at documentation.",
    )


class PreprocessDeclaration(Declaration):
    """What is done to documents before they are cut."""

    dedupe: bool = Field(
        True,
        description="Find a text only once if several documents of the knowledge base hold it.",
    )
    remove_html: bool = Field(
        False, description="Remove HTML tags from Markdown and text. HTML pages never keep theirs."
    )
    html: HtmlDeclaration = Field(
        default_factory=HtmlDeclaration, description="How HTML pages are read."
    )
