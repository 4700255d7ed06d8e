"""A chat model without a language model: it quotes the passages in the prompt, and cites them.

It runs the whole path from question to cited answer without a key or a network, and shows what
retrieval found and what it missed. It never adds a word of its own to a quote.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from lorebind_prompts.builder import count_messages
from lorebind_prompts.citations import escape_markers
from lorebind_prompts.quoting import Quote, beginning, choose
from lorebind_prompts.rendering.blocks import parse, without_blocks
from lorebind_prompts.tokens import TiktokenCounter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.callbacks import CallbackManagerForLLMRun
    from langchain_core.messages.ai import UsageMetadata
    from langchain_core.runnables import Runnable

    from lorebind_prompts.rendering.base import Passage

INTRODUCTION = "Quoted from the retrieved passages (extractive, no language model):"
WEAK_INTRODUCTION = (
    "The retrieved passages match this question only weakly and may not answer it. Quoted from the "
    "nearest (extractive, no language model):"
)
NO_WORDS_INTRODUCTION = (
    "No sentence of the retrieved passages has enough words of this question. The best passage "
    "begins (extractive, no language model):"
)
NO_PASSAGES = (
    "No passages were retrieved for this question, so there is nothing to quote "
    "(extractive, no language model)."
)
NO_ANSWER = "Nothing in the retrieved passages can be quoted (extractive, no language model)."

_METADATA = {"model_name": "extractive", "model_provider": "lorebind"}


class ExtractiveChatModel(BaseChatModel):
    """Answers the last question by quoting the passages of the prompt, with their markers.

    Passages are read from the blocks that `render` wrote, in system messages and in the current
    turn; those of earlier turns belong to other questions. The answer says that it is extractive.
    If the blocks say that all passages match only weakly, it says so too. If no sentence has the
    words of the question, it quotes the beginning of the best passage. The same prompt always gives
    the same answer.
    """

    max_quotes: int = 3
    max_characters: int = 600
    """Maximum length of all quotes together; a single longer sentence is still quoted in full."""

    @property
    def model_name(self) -> str:
        return _METADATA["model_name"]

    @property
    def _llm_type(self) -> str:
        return "lorebind-extractive"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        """Return the model itself: it accepts tools, but never calls one."""
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        text, usage = self._answer(messages)
        message = AIMessage(text, usage_metadata=usage, response_metadata=dict(_METADATA))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        text, usage = self._answer(messages)
        for word in re.findall(r"\S+\s*|\s+", text):
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=word))
            if run_manager:
                run_manager.on_llm_new_token(word, chunk=chunk)
            yield chunk
        # Sent once, with the last chunk: values of several chunks would be added up.
        yield ChatGenerationChunk(
            message=AIMessageChunk(
                content="",
                usage_metadata=usage,
                response_metadata=dict(_METADATA),
                chunk_position="last",
            )
        )

    def _answer(self, messages: Sequence[BaseMessage]) -> tuple[str, UsageMetadata]:
        question, passages = read_prompt(messages)
        limits = {"max_quotes": self.max_quotes, "max_characters": self.max_characters}
        chosen = choose(question, passages, **limits)
        quotes = chosen or beginning(passages, **limits)
        if quotes:
            introduction = INTRODUCTION if chosen else NO_WORDS_INTRODUCTION
            if all(passage.weak for passage in passages):
                introduction = WEAK_INTRODUCTION
            text = "\n\n".join([introduction, *map(_written, quotes)])
        else:
            text = NO_ANSWER if passages else NO_PASSAGES
        counter = TiktokenCounter()
        prompt_tokens, answer_tokens = count_messages(messages, counter), counter.count(text)
        return text, {
            "input_tokens": prompt_tokens,
            "output_tokens": answer_tokens,
            "total_tokens": prompt_tokens + answer_tokens,
        }


def read_prompt(messages: Sequence[BaseMessage]) -> tuple[str, list[Passage]]:
    """Return the question of a prompt, and the passages that were added for that question.

    The question is the text of the last human message outside its blocks. Its turn starts after the
    model's last answer, so that a block can be a message of its own.
    """
    humans = [index for index, message in enumerate(messages) if isinstance(message, HumanMessage)]
    if not humans:
        return "", []
    start = humans[-1]
    while start and not isinstance(messages[start - 1], AIMessage):
        start -= 1
    turn = messages[start:]
    questions = [
        without_blocks(str(message.text)) for message in turn if isinstance(message, HumanMessage)
    ]
    question = next((text for text in reversed(questions) if text), "")
    system = [message for message in messages[:start] if message.type == "system"]
    passages: dict[str, Passage] = {}
    for message in (*system, *turn):
        for passage in parse(str(message.text)):
            passages.setdefault(passage.marker, passage)
    return question, list(passages.values())


def _written(quote: Quote) -> str:
    """Format a quote as Markdown, with the marker at its end."""
    parts: list[str] = []
    for unit in quote.units:
        if unit.kind == "code":
            runs = re.findall("`{3,}", unit.text)
            fence = "`" * max(3, *(len(run) + 1 for run in runs), 0)
            parts += ["", f"{fence}{unit.language}", unit.text, fence, ""]
        else:
            bullet = "- " if unit.kind == "item" and len(quote.units) > 1 else ""
            parts.append(f"> {bullet}{escape_markers(unit.text)}")
    if quote.units[-1].kind == "code":
        parts.append(quote.marker)
    else:
        parts[-1] += f" {quote.marker}"
    return "\n".join(parts).strip()
