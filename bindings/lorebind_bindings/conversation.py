"""The text to search for when a question follows others: few follow-ups can be understood alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lorebind_bindings.models import naming_failures
from lorebind_bindings.observing import model_call
from lorebind_config.errors import LorebindError, UsageError
from lorebind_knowledge.events import Events
from lorebind_knowledge.plumbing.bridge import call, call_client
from lorebind_knowledge.text.splitting import words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig

    from lorebind_bindings.resolver import ResolvedBinding

_SHORT, _SHORT_CHARACTERS, _TIMES = 10, 100, 3
"""Measured with `benchmarks/follow_ups.py`. A question with fewer words and characters than this is
searched together with the previous question. It is repeated three times, so that it weighs more
than the previous one and can change the subject."""
_MESSAGES = 6
_CHARACTERS = 1000
"""The latest messages that a condensing model reads, and the first characters of each, because a
message may be very long."""

_INSTRUCTIONS = (
    "You are given a conversation and the user's last message. Write the question that the last "
    "message asks, so that it can be understood without the conversation: put in what words such "
    "as 'it' or 'that' stand for. Keep the user's language. If it can be understood alone, repeat "
    "it. Answer with the question and nothing else."
)


async def texts_to_search(
    bindings: Sequence[ResolvedBinding],
    question: str,
    history: Sequence[BaseMessage] = (),
    config: RunnableConfig | None = None,
    events: Events | None = None,
) -> list[str | LorebindError]:
    """Return the text to search for per binding, or the error of the model that condenses.

    A model that several bindings name is asked once. When this is cancelled, its model calls are
    cancelled too.

    Args:
        bindings: the bindings to search. The `condense` of each says how it uses the conversation.
        question: the user's question.
        history: the messages before the question.
        config: its callbacks are notified of model calls.
        events: receives `model_called`.

    Raises:
        UsageError: a binding names a model but was made without it, see `ModelPool.condensing`.
    """
    from lorebind_prompts import user_texts  # importing LangChain takes 0.5 s

    if not history or not user_texts(history):
        return [question] * len(bindings)
    named = {
        binding.settings.condense.model: binding
        for binding in bindings
        if binding.settings.condense.model
    }
    asking = (condensed(binding, question, history, config, events) for binding in named.values())
    # An error concerns only the bindings that name the model; `on_error` may tolerate it.
    questions = dict(zip(named, await asyncio.gather(*asking, return_exceptions=True), strict=True))
    for failure in questions.values():
        if isinstance(failure, BaseException) and not isinstance(failure, LorebindError):
            raise failure

    def text(binding: ResolvedBinding) -> Any:
        condense = binding.settings.condense
        if condense.model is not None:
            return questions[condense.model]
        if condense.method == "none":
            return question
        # A reranker reads the text, so the question should appear in it only once.
        times = 1 if binding.settings.strategy == "rerank" else _TIMES
        return with_turns(question, history, times)

    return [text(binding) for binding in bindings]


def with_turns(question: str, history: Sequence[BaseMessage], times: int = _TIMES) -> str:
    """Add the user's previous message to the question if the question is short."""
    from lorebind_prompts import user_texts  # importing LangChain takes 0.5 s

    before = user_texts(history)
    is_short = len(words_of(question)) < _SHORT and len(question) < _SHORT_CHARACTERS
    if not before or not is_short:
        return question
    return "\n".join([question] * times + [before[-1][:_CHARACTERS]])


async def condensed(
    binding: ResolvedBinding,
    question: str,
    history: Sequence[BaseMessage],
    config: RunnableConfig | None = None,
    events: Events | None = None,
) -> str:
    """Ask the chat model of a binding to rewrite a question so that it can be understood alone.

    Raises:
        UsageError: the binding has no model.
        ModelError: the model failed.
    """
    from langchain_core.messages import AIMessage, HumanMessage

    if binding.condenser is None:
        raise UsageError(
            f"the binding of {binding.id!r} names the model {binding.settings.condense.model!r} "
            "but was made without it; see ModelPool.condensing"
        )
    model = await call(binding.condenser)
    spoken = [
        f"{message.type}: {text[:_CHARACTERS]}"
        for message in history
        if isinstance(message, HumanMessage | AIMessage) and (text := str(message.text).strip())
    ]
    conversation = "\n".join(spoken[-_MESSAGES:])
    prompted = f"<conversation>\n{conversation}\n</conversation>\nLast message: {question}"
    prompt = [("system", _INSTRUCTIONS), ("human", prompted)]
    # LangGraph omits calls with this tag from its message stream: they are not part of the answer.
    quiet: Any = {**(config or {}), "tags": ["nostream"], "run_name": "lorebind condense"}
    with model_call(events or Events(), model) as observed, naming_failures(model):
        answer = await call_client(model.invoke, model.ainvoke, prompt, quiet)
        observed.reply(answer)
    return str(answer.text).strip() or question
