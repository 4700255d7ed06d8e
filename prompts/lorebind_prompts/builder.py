"""The messages of a prompt: instructions, what was said before, then knowledge and question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_prompts.tokens import TokenCounter

_TOKENS_PER_MESSAGE = 4


def build_messages(
    *,
    question: str,
    instructions: str = "",
    blocks: Sequence[str],
    history: Sequence[BaseMessage] = (),
) -> list[BaseMessage]:
    """The messages for a chat model: the blocks stand in the user's message, before the question.

    Empty instructions and empty blocks leave no trace. The history is put in as it is.
    """
    system = [SystemMessage(instructions)] if instructions.strip() else []
    human = "\n\n".join([block for block in blocks if block] + [question])
    return [*system, *history, HumanMessage(human)]


def count_messages(messages: Sequence[BaseMessage], counter: TokenCounter) -> int:
    """The tokens of all texts, and 4 for each message, which is about what its frame costs.

    Images and other parts that are no text are not counted.
    """
    return sum(counter.count(str(message.text)) + _TOKENS_PER_MESSAGE for message in messages)
