"""Build the messages of a prompt: instructions, history, then knowledge and question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, convert_to_messages

from lorebind_config.errors import UsageError
from lorebind_prompts.sharing import BETWEEN_BLOCKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_prompts.tokens import TokenCounter

_TOKENS_PER_MESSAGE = 4
_Content: TypeAlias = "str | list[str | dict[str, Any]]"


def build_messages(
    *,
    question: str,
    instructions: str = "",
    blocks: Sequence[str],
    history: Sequence[BaseMessage] = (),
    attachments: Sequence[Mapping[str, Any]] = (),
) -> list[BaseMessage]:
    """Return the messages for a chat model: the blocks precede the question in the user's message.

    Empty instructions and empty blocks are omitted. The history is included unchanged. Attachments,
    which are images or files as LangChain content blocks, follow the question.
    """
    system = [SystemMessage(instructions)] if instructions.strip() else []
    message = HumanMessage([_text(question), *map(dict, attachments)] if attachments else question)
    return put_before_question([*system, *history, message], blocks)


def with_instructions(instructions: str, message: SystemMessage | None) -> SystemMessage:
    """Return a system message: the instructions, then those of another system message."""
    if message is None:
        return SystemMessage(instructions)
    return message.model_copy(update={"content": _before(instructions, message.content)})


def messages_of(value: Any, name: str) -> list[BaseMessage]:
    """Convert a value to messages: LangChain's, pairs of role and text, or mappings.

    Raises:
        UsageError: the value is not a list of messages; the message names it by `name`.
    """
    try:
        if isinstance(value, str | bytes | Mapping):
            raise TypeError(f"got one {type(value).__name__}")
        return convert_to_messages(value)
    except (TypeError, ValueError, KeyError, NotImplementedError) as error:
        # LangChain raises any of these.
        problem = (
            f"{error} is missing" if isinstance(error, KeyError) else str(error).split("\n")[0]
        )
        raise UsageError(f"{name!r} must be a list of LangChain messages: {problem}") from None


def put_before_question(
    messages: Sequence[BaseMessage], blocks: Sequence[str]
) -> list[BaseMessage]:
    """Return the messages with the blocks at the start of the user's last one, which is copied.

    Other parts of that message, such as images, stay. If the user's messages were replaced by a
    summary, the blocks precede the summary. Without blocks, or without a human message, the
    messages do not change.
    """
    put = BETWEEN_BLOCKS.join(block for block in blocks if block)
    at = last_question(messages)
    if at is None:
        humans = [
            index for index, message in enumerate(messages) if isinstance(message, HumanMessage)
        ]
        at = humans[-1] if humans else None
    if at is None or not put:
        return list(messages)
    question = messages[at].model_copy(update={"content": _before(put, messages[at].content)})
    return [*messages[:at], question, *messages[at + 1 :]]


def _before(text: str, content: _Content) -> _Content:
    """Return the content of a message with a text before it; parts such as images stay."""
    if isinstance(content, str):
        return f"{text}\n\n{content}" if content else text
    return [_text(f"{text}\n\n"), *content]


def last_question(messages: Sequence[BaseMessage]) -> int | None:
    """Return the index of the user's last message; None if there is none.

    If several user messages are adjacent, it is the last one with text, since images are often sent
    after their question. Messages written in the user's name, such as summaries, do not count.
    """
    users = [index for index, message in enumerate(messages) if _is_users(message)]
    at = users[-1] if users else None
    while at and not str(messages[at].text).strip() and _is_users(messages[at - 1]):
        at -= 1
    if at is not None and not str(messages[at].text).strip():
        return users[-1]
    return at


def user_texts(messages: Sequence[BaseMessage]) -> list[str]:
    """Return the texts of the user's own messages, earliest first; summaries do not count."""
    texts = (str(message.text).strip() for message in messages if _is_users(message))
    return [text for text in texts if text]


def _is_users(message: BaseMessage) -> bool:
    marked = message.additional_kwargs.get("lc_source")  # see `add_notification_metadata`
    return isinstance(message, HumanMessage) and not isinstance(marked, str)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def count_messages(messages: Sequence[BaseMessage], counter: TokenCounter) -> int:
    """Count the tokens of all texts, plus 4 per message, which is about what its framing costs.

    Images and other parts without text are not counted.
    """
    return sum(counter.count(str(message.text)) + _TOKENS_PER_MESSAGE for message in messages)
