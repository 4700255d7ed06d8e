"""Where the documents of a knowledge base come from, and how they become chunks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.bm25.languages import AUTO
from lorebind_knowledge.loaders.readers import Loading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lorebind_knowledge.chunking.base import Chunker
    from lorebind_knowledge.knowledge_base import KnowledgeBase
    from lorebind_knowledge.sources.base import Source


@dataclass(frozen=True)
class Corpus:
    """What is ingested into a knowledge base. A search needs none of it."""

    kb: KnowledgeBase
    sources: Sequence[Source]
    chunker: Chunker
    metadata: Mapping[str, Any]
    """Copied onto every chunk, for filters: tags, owners, whatever the project declares."""
    remove_html: bool = False
    """Whether HTML tags are taken out of Markdown and text."""
    language: str = AUTO
    """The code of the language of its documents, or that it is told from each of them."""
    html_extractor: str = "built_in"
    """What finds the main content of HTML pages, see `HtmlDeclaration`."""
    loading: Loading = field(default_factory=Loading)
    """What reading one of the documents may take."""
