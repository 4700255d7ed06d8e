"""The strategy `code`: splits at classes and functions, then statements, then lines."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from lorebind_config.identity import digest
from lorebind_knowledge.chunking.base import Chunker
from lorebind_knowledge.chunking.recursive import RecursiveChunker, before_match

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.chunking.base import Interval
    from lorebind_knowledge.chunking.rulers import Unit


@cache
def code_chunker(
    language: str, size: int, overlap: int, unit: Unit = "characters"
) -> RecursiveChunker:
    """Return the recursive chunker with LangChain's separators for a programming language.

    Args:
        language: a member of `langchain_text_splitters.Language`.
        size: maximum number of units per chunk.
        overlap: maximum number of units that a chunk repeats from the previous one; less than
            `size`.
        unit: the unit of `size` and `overlap`.
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
    """A chunker that splits source code by its language's syntax, and other texts with `texts`."""

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
        except ValueError:  # unknown to LangChain; a plugin's loader may name any language
            return self

    def split(
        self, text: str, start: int, end: int, boundaries: Sequence[int] = ()
    ) -> list[Interval]:
        return self._texts.split(text, start, end, boundaries)
