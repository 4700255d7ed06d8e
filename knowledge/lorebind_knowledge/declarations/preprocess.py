"""`preprocess:` what is done to documents before they are cut."""

from __future__ import annotations

from pydantic import Field

from lorebind_knowledge.declarations.base import Declaration


class PreprocessDeclaration(Declaration):
    """What is done to documents before they are cut."""

    dedupe: bool = Field(
        True, description="Find a text once, however many documents of the knowledge base hold it."
    )
    remove_html: bool = Field(
        False, description="Take HTML tags out of Markdown and text; pages are read as HTML anyway."
    )
