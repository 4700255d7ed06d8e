"""What is searched for when a question follows others: a follow-up is seldom understood alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lorebind_bindings.models import naming_failures
from lorebind_knowledge.bridge import call_client

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage

    from lorebind_bindings.resolver import ResolvedBinding

_SHORT, _TIMES = 10, 3
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


class FollowUp:
    """A question and what was said before it, for all bindings that are searched for it."""

    def __init__(self, question: str, history: Sequence[BaseMessage] = ()) -> None:
        self._question, self._history = question, history
        self._condensed: dict[int, asyncio.Future[str]] = {}

    async def text(self, binding: ResolvedBinding) -> str:
        """What a binding is to be searched for.

        Raises:
            ModelError: the model that condenses failed.
        """
        if not self._history or binding.settings.condense.method == "none":
            return self._question
        model = binding.condenser
        if model is None:
            return with_turns(self._question, self._history)
        key = id(model)
        if key not in self._condensed:  # a model is asked once, for all bindings that name it
            asking = condensed(model, self._question, self._history)
            self._condensed[key] = asyncio.ensure_future(asking)
        return await asyncio.shield(self._condensed[key])


def with_turns(question: str, history: Sequence[BaseMessage]) -> str:
    """The question, and the user's message before it if the question is short.

    Where words are not parted by blanks, every question is short.
    """
    from lorebind_prompts import user_texts  # half a second of LangChain

    before = user_texts(history)
    if not before or len(question.split()) >= _SHORT:
        return question
    return "\n".join([question] * _TIMES + [before[-1][:_CHARACTERS]])


async def condensed(model: BaseChatModel, question: str, history: Sequence[BaseMessage]) -> str:
    """What a chat model makes of a question and the last messages before it.

    Raises:
        ModelError: it failed.
    """
    from langchain_core.messages import AIMessage, HumanMessage

    spoken = [one for one in history if isinstance(one, HumanMessage | AIMessage)]
    said = [f"{one.type}: {str(one.text)[:_CHARACTERS]}" for one in spoken[-_MESSAGES:]]
    conversation = "\n".join(said)
    given = f"<conversation>\n{conversation}\n</conversation>\nLast message: {question}"
    prompt = [("system", _INSTRUCTIONS), ("human", given)]
    with naming_failures(model):
        answer = await call_client(model.invoke, model.ainvoke, prompt)
    return str(answer.text).strip() or question
