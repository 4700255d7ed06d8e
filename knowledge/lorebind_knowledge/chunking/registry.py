"""From a declared chunking to the chunker that does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.declarations.chunking import ChunkingDeclaration

if TYPE_CHECKING:
    from lorebind_knowledge.chunking.base import Chunker
    from lorebind_knowledge.chunking.distances import Embed
    from lorebind_knowledge.configuration import Environment
    from lorebind_knowledge.declarations.chunking import ChunkerBase


def make_chunker(
    declaration: ChunkerBase,
    embed: Embed | None = None,
    embedder: str = "",
    environment: Environment | None = None,
) -> Chunker:
    """The chunker that a declaration names.

    Args:
        declaration: what is declared.
        embed: vectors for sentences, for the semantic chunker; without it, it compares words.
        embedder: whose vectors those are, so that another embedder is another chunker.
        environment: of the project, for plugins.
    """
    if not isinstance(declaration, ChunkingDeclaration):
        from lorebind_knowledge.chunking.plugged import make_plugged_chunker

        assert environment is not None  # only a project declares a plugin
        return make_plugged_chunker(declaration, environment)
    size, overlap, unit = declaration.size, declaration.overlap, declaration.unit
    match declaration.strategy:
        case "recursive_text_splitter":
            from lorebind_knowledge.chunking.recursive import RecursiveChunker

            return RecursiveChunker(size, overlap, unit)
        case "fixed" | "token":
            from lorebind_knowledge.chunking.windows import WindowChunker

            return WindowChunker(size, overlap, unit)
        case "markdown":
            from lorebind_knowledge.chunking.sections import MARKDOWN, SectionChunker

            return SectionChunker(size, overlap, unit, levels=MARKDOWN, name="markdown/1")
        case "html":
            from lorebind_knowledge.chunking.sections import HTML, SectionChunker

            return SectionChunker(size, overlap, unit, levels=HTML, name="html/1")
        case "json":
            from lorebind_knowledge.chunking.json_text import JSON
            from lorebind_knowledge.chunking.recursive import RecursiveChunker

            return RecursiveChunker(size, overlap, unit, levels=JSON, name="json/1")
        case "code":
            from lorebind_knowledge.chunking.code import code_chunker

            assert declaration.language is not None  # the declaration refuses to be without
            return code_chunker(declaration.language, size, overlap, unit)
        case "semantic":
            from lorebind_knowledge.chunking.semantic import SemanticChunker, SemanticSettings

            chosen = declaration.semantic
            settings = SemanticSettings(
                rule=chosen.breakpoints,
                threshold=chosen.threshold,
                structural_weight=chosen.structural_weight,
                window=chosen.window,
                min_tokens=chosen.min_tokens,
                max_tokens=chosen.max_tokens,
            )
            return SemanticChunker(settings, embed, embedder)
