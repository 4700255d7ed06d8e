"""`preprocess:` what is done to documents before they are cut."""

from __future__ import annotations

from pydantic import Field

from lorebind_knowledge.declarations.base import Declaration


class PreprocessDeclaration(Declaration):
    """What is done to documents before they are cut."""

    dedupe: bool = Field(
        True,
        description="Find a text only once if several documents of the knowledge base hold it.",
    )
    remove_html: bool = Field(
        False, description="Remove HTML tags from Markdown and text. HTML pages never keep theirs."
    )
