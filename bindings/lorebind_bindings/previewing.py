"""The prompt of an answer, without calling the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage

    from lorebind_bindings.injecting import Injection
    from lorebind_bindings.retrieving import BoundResult, Verdict
    from lorebind_prompts import TokenCounter
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


def preview(
    messages: Sequence[BaseMessage], injection: Injection, counter: TokenCounter
) -> PromptPreview:
    """Return the prompt that these messages are, with what was injected into them."""
    from lorebind_prompts import count_messages

    return PromptPreview(
        [PromptMessage(message.type, str(message.text)) for message in messages],
        count_messages(messages, counter),
        counter.name,
        counter.exact,
        injection.dropped,
        injection.verdict,
        injection.results,
    )
