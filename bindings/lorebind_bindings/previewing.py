"""The prompt of an answer, without calling the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_bindings.answering import ModelRequest
    from lorebind_bindings.retrieving import BoundResult, Verdict
    from lorebind_prompts.assembler import Dropped


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """A message of a prompt."""

    role: str
    """`system`, `human`, `ai` or `tool`."""
    content: str


@dataclass(frozen=True, slots=True)
class PromptPreview:
    """The messages that a model would get, and the passages that are omitted."""

    messages: Sequence[PromptMessage]
    tokens: int
    """The tokens of all messages."""
    tokenizer: str
    exact: bool
    """Whether the tokenizer is that of the model."""
    dropped: Sequence[Dropped]
    """The passages that were found and are not in the prompt, with the reasons."""
    verdict: Verdict
    results: Sequence[BoundResult]


def preview(prepared: ModelRequest) -> PromptPreview:
    """Return the prompt of a request that is ready to be sent."""
    from lorebind_prompts import count_messages

    injection, counter = prepared.injection, prepared.counter
    return PromptPreview(
        [PromptMessage(message.type, str(message.text)) for message in prepared.messages],
        count_messages(prepared.messages, counter),
        counter.name,
        counter.exact,
        injection.dropped,
        injection.verdict,
        injection.results,
    )
