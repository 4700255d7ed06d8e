"""`code`: classes and functions, else statements, else lines, as the language has them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from lorebind_knowledge.chunking.base import Chunker
from lorebind_knowledge.chunking.recursive import RecursiveChunker, before_match
from lorebind_knowledge.identity import digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.chunking.base import Interval
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


class ByLanguage(Chunker):
    """Cuts source code by the syntax of its language, and all else as another chunker does."""

    def __init__(self, texts: Chunker, size: int, overlap: int, unit: Unit) -> None:
        self._texts, self._size, self._overlap, self._unit = texts, size, overlap, unit

    @property
    def fingerprint(self) -> str:
        return self._texts.fingerprint

    def for_language(self, language: str) -> Chunker:
        if not language:
            return self
        try:
            return code_chunker(language, self._size, self._overlap, self._unit)
        except ValueError:  # LangChain does not know it; loaders of plugins may name any
            return self

    def split(
        self, text: str, start: int, end: int, boundaries: Sequence[int] = ()
    ) -> list[Interval]:
        return self._texts.split(text, start, end, boundaries)
