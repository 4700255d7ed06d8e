"""The sources of a knowledge base, and the settings by which documents become chunks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lorebind_config.languages import AUTO
from lorebind_knowledge.loaders.process.readers import Loading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lorebind_knowledge.chunking.base import Chunker
    from lorebind_knowledge.knowledge_base import KnowledgeBase
    from lorebind_knowledge.sources.base import Source


@dataclass(frozen=True)
class Corpus:
    """Everything that an ingest of a knowledge base needs, and a search does not."""

    kb: KnowledgeBase
    sources: Sequence[Source]
    chunker: Chunker
    metadata: Mapping[str, Any]
    """Metadata copied to every chunk, for filters: tags, owners, or anything else."""
    remove_html: bool = False
    """Whether HTML tags are removed from Markdown and text."""
    language: str = AUTO
    """The language code of its documents, or `AUTO` to detect the language of each document."""
    html_extractor: str = "built_in"
    """The extractor of the main content of HTML pages, see `HtmlDeclaration`."""
    loading: Loading = field(default_factory=Loading)
    """The limits on reading one document."""
    large_chunks: bool = False
    """Whether chunks can be larger than those of the default size."""
    token_price: float | None = None
    """The price of embedding a million tokens, if it is known."""
