"""The messages of a prompt: instructions, what was said before, then knowledge and question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, convert_to_messages

from lorebind_knowledge.errors import UsageError
from lorebind_prompts.sharing import BETWEEN_BLOCKS

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
    attachments: Sequence[Mapping[str, Any]] = (),
) -> list[BaseMessage]:
    """The messages for a chat model: the blocks stand in the user's message, before the question.

    Empty instructions and empty blocks leave no trace. The history is put in as it is.
    Attachments, images or files as LangChain's content blocks, stand behind the question.
    """
    system = [SystemMessage(instructions)] if instructions.strip() else []
    asked = HumanMessage([_text(question), *map(dict, attachments)] if attachments else question)
    return put_before_question([*system, *history, asked], blocks)


def messages_of(given: Any, name: str) -> list[BaseMessage]:
    """What is given under a name as messages: LangChain's, pairs of role and text, or mappings.

    Raises:
        UsageError: it is no list of such.
    """
    try:
        if isinstance(given, str | bytes | Mapping):
            raise TypeError(f"got one {type(given).__name__}")
        return convert_to_messages(given)
    except (TypeError, ValueError, KeyError, NotImplementedError) as error:
        # LangChain raises one of these, depending on what is wrong.
        said = f"{error} is missing" if isinstance(error, KeyError) else str(error).split("\n")[0]
        raise UsageError(f"{name!r} must be a list of LangChain's messages: {said}") from None


def put_before_question(
    messages: Sequence[BaseMessage], blocks: Sequence[str]
) -> list[BaseMessage]:
    """The messages with the blocks at the start of the user's last one, which is copied.

    What stands in it beside text, images for example, stays. Where what the user said has been
    summarised away, they stand before the summary. Without blocks, or without a human message, the
    messages are what they were.
    """
    put = BETWEEN_BLOCKS.join(block for block in blocks if block)
    at = last_question(messages)
    if at is None:
        humans = [index for index, one in enumerate(messages) if isinstance(one, HumanMessage)]
        at = humans[-1] if humans else None
    if at is None or not put:
        return list(messages)
    asked = messages[at]
    content: str | list[str | dict[str, Any]]
    if isinstance(asked.content, str):
        content = f"{put}\n\n{asked.content}" if asked.content else put
    else:
        content = [_text(f"{put}\n\n"), *asked.content]
    return [*messages[:at], asked.model_copy(update={"content": content}), *messages[at + 1 :]]


def last_question(messages: Sequence[BaseMessage]) -> int | None:
    """The index of the user's last message; None where there is none.

    Of several messages in a row it is the last one that has words: a picture is often sent behind
    its question. What others wrote in the user's name, such as a summary, is none of the user's.
    """
    users = [index for index, one in enumerate(messages) if _is_users(one)]
    at = users[-1] if users else None
    while at and not str(messages[at].text).strip() and _is_users(messages[at - 1]):
        at -= 1
    if at is not None and not str(messages[at].text).strip():
        return users[-1]
    return at


def user_texts(messages: Sequence[BaseMessage]) -> list[str]:
    """What the user has said, the earliest first; not what others wrote in the user's name."""
    said = (str(message.text).strip() for message in messages if _is_users(message))
    return [text for text in said if text]


def _is_users(message: BaseMessage) -> bool:
    marked = message.additional_kwargs.get("lc_source")  # see `add_notification_metadata`
    return isinstance(message, HumanMessage) and not isinstance(marked, str)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def count_messages(messages: Sequence[BaseMessage], counter: TokenCounter) -> int:
    """The tokens of all texts, and 4 for each message, which is about what its frame costs.

    Images and other parts that are no text are not counted.
    """
    return sum(counter.count(str(message.text)) + _TOKENS_PER_MESSAGE for message in messages)
