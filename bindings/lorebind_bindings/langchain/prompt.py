"""A prompt that adds passages to a question, for any chat model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage, convert_to_messages
from langchain_core.prompt_values import ChatPromptValue, PromptValue
from langchain_core.runnables import Runnable

from lorebind_bindings.answering import ModelRequest
from lorebind_bindings.injecting import inject, inject_given
from lorebind_bindings.langchain.citing import AskedInRuns
from lorebind_bindings.langchain.markers import next_marker, passages_in
from lorebind_bindings.prompt_template import Prompt, literal
from lorebind_config.errors import UsageError, did_you_mean
from lorebind_config.templates import references
from lorebind_knowledge.plumbing.bridge import run
from lorebind_prompts import (
    build_messages,
    last_question,
    messages_of,
    put_before_question,
)

if TYPE_CHECKING:
    from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
    from langchain_core.runnables import RunnableConfig

    from lorebind_bindings.injecting import Injection
    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_knowledge.service import KnowledgeService
    from lorebind_prompts import TokenCounter

QUESTION = "question"
HISTORY = "history"
DOCUMENTS = "documents"
MESSAGES = "messages"


class KnowledgePrompt(Runnable[Any, PromptValue]):
    """Turns a question into the messages of a prompt, with the passages found for it.

    The input is one of:

    - the question as a string.
    - messages; the user's last message is the question.
    - a mapping with `question` or `messages`. It may also have `history`, the earlier messages, and
      `documents`, passages from a retriever that replace the search. The template can name all
      other keys.
    """

    def __init__(
        self,
        service: KnowledgeService,
        bindings: Sequence[ResolvedBinding],
        counter: TokenCounter,
        *,
        template: str | None = None,
        instructions: str = "",
        max_tokens: int | None = None,
        asked_in_runs: AskedInRuns | None = None,
    ) -> None:
        """
        Args:
            service: the project's knowledge.
            bindings: the knowledge bases to search.
            counter: counts the tokens of the model that is asked.
            template: the user's message, as in `Answer in French: {{ .question }}`. It may also
                contain places that `inject_as` names. None means the question alone.
            instructions: the system message.
            max_tokens: the budget of all passages together, see `inject`.
            asked_in_runs: where a `CitationParser` of the same chain finds the request.

        Raises:
            MalformedTemplateError: the template is malformed, for example not closed.
        """
        references(template or "")
        self._bindings = list(bindings)
        self._counter = counter
        self._template = template
        self._instructions = instructions
        self._inject = partial(inject, service, self._bindings, counter, max_tokens=max_tokens)
        self._inject_given = partial(inject_given, counter=counter, max_tokens=max_tokens)
        self._asked_in_runs = AskedInRuns() if asked_in_runs is None else asked_in_runs

    def invoke(
        self,
        input: Any,  # noqa: A002  # the name that LangChain gives it
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> PromptValue:
        """Return the prompt for a question; the class lists the possible inputs.

        Raises:
            UsageError: the input contains no question.
            LorebindError: a search failed and the `on_error` of its binding is `fail`.
        """
        return self._call_with_config(
            lambda value, run_manager, config: run(self._prompt(value, run_manager, config)),
            input,
            config,
            run_type="prompt",
        )

    async def ainvoke(
        self,
        input: Any,  # noqa: A002  # the name that LangChain gives it
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> PromptValue:
        """Async version of `invoke`."""
        return await self._acall_with_config(
            lambda value, run_manager, config: self._prompt(value, run_manager, config),
            input,
            config,
            run_type="prompt",
        )

    async def _prompt(
        self,
        value: Any,
        run_manager: CallbackManagerForChainRun | AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
    ) -> PromptValue:
        values = _values(value)
        if (messages := values.get(MESSAGES)) is not None:
            request = await self._injected(messages_of(messages, MESSAGES), config)
        else:
            request = await self._filled(values, config)
        if run_manager.parent_run_id is not None:
            self._asked_in_runs[run_manager.parent_run_id] = request
        return ChatPromptValue(messages=request.messages)

    async def _filled(self, values: Mapping[str, Any], config: RunnableConfig) -> ModelRequest:
        question = values.get(QUESTION)
        if not isinstance(question, str):
            raise _no_question(values)
        template = self._template
        prompt = literal(question) if template is None else Prompt(template, values)
        places = [binding.settings.inject_as for binding in self._bindings]
        history = messages_of(values.get(HISTORY) or [], HISTORY)
        first = next_marker(history)
        if (documents := values.get(DOCUMENTS)) is not None:
            injection = self._inject_given(documents, first_marker=first)
        else:
            injection = await self._inject(
                question, first_marker=first, history=history, config=config
            )
        before, text = prompt.filled(injection.blocks, places)
        built = build_messages(
            question=text,
            instructions=self._instructions,
            blocks=before,
            history=history,
        )
        return self._request(built, injection)

    async def _injected(self, messages: list[BaseMessage], config: RunnableConfig) -> ModelRequest:
        at = last_question(messages)
        if at is None:
            raise UsageError("the messages include no user message; add one with the question")
        first = next_marker(messages)
        question, history = str(messages[at].text), messages[:at]
        injection = await self._inject(question, first_marker=first, history=history, config=config)
        texts = [block.text for block in injection.blocks]
        instructions = [("system", self._instructions)] if self._instructions else []
        before = convert_to_messages(instructions)
        return self._request([*before, *put_before_question(messages, texts)], injection)

    def _request(self, messages: list[BaseMessage], injection: Injection) -> ModelRequest:
        return ModelRequest(messages, injection, self._counter, earlier=passages_in(messages))


def _values(value: Any) -> dict[str, Any]:
    """Return the input as a mapping."""
    if isinstance(value, str):
        return {QUESTION: value}
    if isinstance(value, PromptValue):
        return {MESSAGES: value.to_messages()}
    if isinstance(value, BaseMessage):
        return {MESSAGES: [value]}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return {MESSAGES: value}
    raise _no_question({})


def _no_question(values: Mapping[str, Any]) -> UsageError:
    hint = did_you_mean(QUESTION, values) if values else "give a text, messages, or a mapping"
    return UsageError(f"the input has neither text under {QUESTION!r} nor messages; {hint}")
