"""What retrieval hands to a prompt: a passage, who asked for it, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lorebind_knowledge.records import DocumentMatch
    from lorebind_prompts.tokens import TokenCounter


@dataclass(frozen=True, slots=True)
class RetrievedContext:
    """A passage on its way into a prompt."""

    binding_id: str
    """The binding that asked for it."""
    content: str
    score: float
    """In [0, 1], higher is better."""
    token_estimate: int
    """Tokens of the bare content, without the markup that a block adds."""
    metadata: Mapping[str, Any]
    """`kb_id`, `uri`, `title`, the span, and, where known, `heading`, `page`, `time_start`."""
    id: str = ""
    """The chunk's id; empty when the passage comes from elsewhere."""

    @classmethod
    def from_match(
        cls, binding_id: str, match: DocumentMatch, counter: TokenCounter
    ) -> RetrievedContext:
        """The context made of what a search found for a binding."""
        return cls(
            binding_id=binding_id,
            content=match.text,
            score=match.score,
            token_estimate=counter.count(match.text),
            metadata=match.metadata,
            id=match.id,
        )
