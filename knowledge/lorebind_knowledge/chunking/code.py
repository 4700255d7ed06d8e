"""`code`: classes and functions, else statements, else lines, as the language has them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from lorebind_knowledge.chunking.recursive import RecursiveChunker, before_match
from lorebind_knowledge.identity import digest

if TYPE_CHECKING:
    from lorebind_knowledge.chunking.rulers import Unit


@cache
def code_chunker(
    language: str, size: int, overlap: int, unit: Unit = "characters"
) -> RecursiveChunker:
    """The recursive splitter with LangChain's separators for a programming language.

    Args:
        language: one of `langchain_text_splitters.Language`.
        size: the most that a chunk may hold, in units.
        overlap: less than the size.
        unit: what both count.
    """
    from langchain_text_splitters import Language, RecursiveCharacterTextSplitter

    separators = RecursiveCharacterTextSplitter.get_separators_for_language(Language(language))
    return RecursiveChunker(
        size,
        overlap,
        unit,
        levels=[before_match(separator) for separator in separators if separator],
        name=f"code/1 {language} {digest(*separators)[:12]}",  # LangChain may change them
    )
