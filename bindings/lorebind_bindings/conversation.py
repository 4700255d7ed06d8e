"""What is searched for when a question follows others: a follow-up is seldom understood alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lorebind_bindings.models import naming_failures
from lorebind_knowledge.bridge import call, call_client
from lorebind_knowledge.errors import LorebindError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig

    from lorebind_bindings.resolver import ResolvedBinding

_SHORT, _SHORT_CHARACTERS, _TIMES = 10, 100, 3
"""Chosen by `benchmarks/follow_ups.py`: a question of fewer words goes with the one before it, and
counts three times as much, so that it can also change the subject."""
_MESSAGES = 6
_CHARACTERS = 1000

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
) -> list[str | LorebindError]:
    """What each of the bindings is to be searched for, or why the model that condenses failed.

    A model that several bindings name is asked once. Nothing is left running when this is
    cancelled.

    Args:
        bindings: those to search; each says in its `condense` what becomes of the conversation.
        question: what is asked.
        history: what was said before.
        config: whose callbacks are told of the calls of models.

    Raises:
        UsageError: a binding names a model and has none, see `ModelPool.condensing`.
    """
    from lorebind_prompts import user_texts  # half a second of LangChain

    if not history or not user_texts(history):
        return [question] * len(bindings)
    named = {one.settings.condense.model: one for one in bindings if one.settings.condense.model}
    asking = (condensed(one, question, history, config) for one in named.values())
    made = dict(zip(named, await asyncio.gather(*asking, return_exceptions=True), strict=True))
    for failure in made.values():
        if isinstance(failure, BaseException) and not isinstance(failure, LorebindError):
            raise failure

    def text(binding: ResolvedBinding) -> Any:
        condense = binding.settings.condense
        if condense.model is not None:
            return made[condense.model]
        if condense.method == "none":
            return question
        # A reranker reads: it is to see the question once.
        times = 1 if binding.settings.strategy == "rerank" else _TIMES
        return with_turns(question, history, times)

    return [text(binding) for binding in bindings]


def with_turns(question: str, history: Sequence[BaseMessage], times: int = _TIMES) -> str:
    """The question, and the user's message before it if the question is short."""
    from lorebind_prompts import user_texts  # half a second of LangChain

    before = user_texts(history)
    is_short = len(question.split()) < _SHORT and len(question) < _SHORT_CHARACTERS
    if not before or not is_short:
        return question
    return "\n".join([question] * times + [before[-1][:_CHARACTERS]])


async def condensed(
    binding: ResolvedBinding,
    question: str,
    history: Sequence[BaseMessage],
    config: RunnableConfig | None = None,
) -> str:
    """What the chat model of a binding makes of a question and the last messages before it.

    Raises:
        UsageError: the binding has no model.
        ModelError: it failed.
    """
    from langchain_core.messages import AIMessage, HumanMessage

    if binding.condenser is None:
        raise UsageError(
            f"the binding of {binding.id!r} names the model {binding.settings.condense.model!r} "
            "and was made without it; see ModelPool.condensing"
        )
    model = await call(binding.condenser)
    spoken = [
        f"{one.type}: {text[:_CHARACTERS]}"
        for one in history
        if isinstance(one, HumanMessage | AIMessage) and (text := str(one.text).strip())
    ]
    conversation = "\n".join(spoken[-_MESSAGES:])
    given = f"<conversation>\n{conversation}\n</conversation>\nLast message: {question}"
    prompt = [("system", _INSTRUCTIONS), ("human", given)]
    # Not a part of the answer: LangGraph leaves what has this tag out of its stream of messages.
    quiet: Any = {**(config or {}), "tags": ["nostream"], "run_name": "lorebind condense"}
    with naming_failures(model):
        answer = await call_client(model.invoke, model.ainvoke, prompt, quiet)
    return str(answer.text).strip() or question
