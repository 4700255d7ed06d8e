"""A retrieved passage on its way into a prompt, with its binding and its tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.records import ORDERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.documents import Document

    from lorebind_knowledge.records import DocumentMatch
    from lorebind_prompts.tokens import TokenCounter


@dataclass(frozen=True, slots=True, init=False)
class RetrievedContext:
    """A retrieved passage to be put into a prompt."""

    binding_id: str
    """The binding that retrieved it."""
    content: str
    score: float
    """In [0, 1], higher is better."""
    relevance: float
    """In [0, 1]. It decided whether the passage was retrieved, see `DocumentMatch.relevance`."""
    metadata: Mapping[str, Any]
    """`kb_id`, `uri`, `title`, the span and, if known, `heading` and a location such as `page`."""
    id: str
    """The chunk's id; empty if the passage comes from another retriever."""
    ordering: float
    """The figure that orders the passages, see `DocumentMatch.ordering`."""
    _tokens: int | TokenCounter = field(repr=False, compare=False)

    def __init__(
        self,
        binding_id: str,
        content: str,
        score: float,
        token_estimate: int | TokenCounter,
        metadata: Mapping[str, Any],
        id: str = "",  # noqa: A002 - the name of the field
        relevance: float | None = None,
        ordering: float | None = None,
    ) -> None:
        """
        Args:
            token_estimate: the number of tokens of the content, or the counter to ask for it.
            relevance: None means the score.
            ordering: None means the score.
        """
        relevance = score if relevance is None else relevance
        ordering = score if ordering is None else ordering
        values = (binding_id, content, score, relevance, metadata, id, ordering, token_estimate)
        for name, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, name, value)

    @property
    def token_estimate(self) -> int:
        """Number of tokens of the bare content, without the markup that a block adds."""
        tokens = self._tokens
        return tokens if isinstance(tokens, int) else tokens.count(self.content)

    @classmethod
    def from_match(
        cls, binding_id: str, match: DocumentMatch, counter: TokenCounter
    ) -> RetrievedContext:
        """Create a context from a search result of a binding."""
        values = match.text, match.score, counter, match.metadata, match.id, match.relevance
        return cls(binding_id, *values, match.ordering)

    @classmethod
    def from_document(cls, document: Document, counter: TokenCounter) -> RetrievedContext:
        """Create a context from a LangChain document of any retriever.

        Without a `score` in its metadata, its score is 1. Without a `relevance`, it has that score.
        """
        metadata = dict(document.metadata)
        metadata.setdefault("uri", metadata.get("source") or "")
        score, relevance = _number(metadata.get("score")), _number(metadata.get("relevance"))
        scores = metadata.get("scores")
        ordering = scores.get(ORDERS) if isinstance(scores, dict) else None
        return cls(
            str(metadata.get("kb_id", "")),
            document.page_content,
            1.0 if score is None else score,
            counter,
            metadata,
            document.id or "",
            relevance,
            _number(ordering),
        )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
