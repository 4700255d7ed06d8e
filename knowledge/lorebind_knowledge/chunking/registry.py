"""From a declared chunking to the chunker that does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.chunking.recursive import RecursiveChunker

if TYPE_CHECKING:
    from lorebind_knowledge.chunking.base import Chunker
    from lorebind_knowledge.declarations import ChunkingDeclaration


def make_chunker(declaration: ChunkingDeclaration) -> Chunker:
    """The chunker that a declaration names."""
    return RecursiveChunker(declaration.size, declaration.overlap)
