"""The last step of a chain: a model's message as an answer with its citations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID
from weakref import WeakKeyDictionary

from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable

from lorebind_bindings.answering import Answer, ModelRequest, finished
from lorebind_bindings.langchain.annotating import cited_message
from lorebind_bindings.langchain.markers import (
    METADATA_KEY,
    citations_in,
    passages_in,
    searched_verdict,
)
from lorebind_bindings.structured_output import texts_in
from lorebind_config.errors import UsageError
from lorebind_prompts import check, last_question, messages_of

if TYPE_CHECKING:
    from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
    from langchain_core.runnables import RunnableConfig

AskedInRuns: TypeAlias = WeakKeyDictionary[UUID, ModelRequest]
"""The requests that prompts have made, by the run id of the chain, for as long as the run lasts.

All steps of a chain receive the same object as the id of its run. Nothing else holds a reference to
it, so an entry disappears when the run ends.
"""


class CitationParser(Runnable[Any, Answer]):
    """Turns the message of a model into an `Answer`, as in `prompt | model | citations`.

    The passages are those that the prompt of the same chain offered. So neither the prompt nor the
    parser may have a chain or wrapper of its own, such as `prompt.with_retry()`. Wrap the whole
    chain instead. When streaming, the answer is yielded once, at the end.

    An agent needs no prompt: give the parser its state, or its messages. The passages are then
    those that its tools returned, and those that a message lists that middleware has checked.
    """

    def __init__(self, asked_in_runs: AskedInRuns) -> None:
        """
        Args:
            asked_in_runs: where the prompts of the project store their requests.
        """
        self._asked_in_runs = asked_in_runs

    @property
    def OutputType(self) -> Any:  # noqa: N802  # the name that LangChain gives it
        """`Any`, because pydantic cannot make a schema of `Answer`."""
        return Any

    def invoke(
        self,
        input: Any,  # noqa: A002  # the name that LangChain gives it
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Answer:
        """Return the answer that a message contains.

        Args:
            input: a message of a model, its text, or the state or the messages of an agent.
            config: as for any Runnable.
            kwargs: not used.

        Raises:
            UsageError: the input contains no answer of a model, or it is unknown which passages
                the model was given.
        """
        return self._call_with_config(self._answer, input, config, run_type="parser")

    async def ainvoke(
        self,
        input: Any,  # noqa: A002  # the name that LangChain gives it
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Answer:
        """Async version of `invoke`."""

        async def parse(value: Any, run_manager: AsyncCallbackManagerForChainRun) -> Answer:
            return self._answer(value, run_manager)

        return await self._acall_with_config(parse, input, config, run_type="parser")

    def _answer(
        self,
        value: Any,
        run_manager: CallbackManagerForChainRun | AsyncCallbackManagerForChainRun,
    ) -> Answer:
        if isinstance(value, Mapping) and "messages" in value:
            return _of_conversation(value["messages"], value.get("structured_response"))
        if isinstance(value, list):
            return _of_conversation(value)
        message = AIMessage(value) if isinstance(value, str) else value
        if not isinstance(message, AIMessage):
            raise UsageError(
                "citations are read from a model's message, or from the state or the messages of "
                f"an agent, not from a {type(value).__name__}; put project.citations() directly "
                "after the model or the agent"
            )
        run_id = run_manager.parent_run_id
        request = None if run_id is None else self._asked_in_runs.get(run_id)
        if request is not None:
            return finished(request, message)
        if METADATA_KEY not in message.response_metadata:
            raise UsageError(
                "no prompt of this project is in the same chain; write it as one chain, "
                "project.prompt('docs') | model | project.citations(), and put wrappers such as "
                "with_retry() around the whole chain"
            )
        return _of_conversation([message])


def _of_conversation(conversation: Any, structured: Any = None) -> Answer:
    """Return the last answer of a conversation, with the passages in the artifacts of its tools."""
    messages = messages_of(conversation, "messages")
    question = last_question(messages)
    turn = messages[0 if question is None else question :]
    message = next((item for item in reversed(turn) if isinstance(item, AIMessage)), None)
    if message is None or (structured is None and message.tool_calls):
        raise UsageError("the messages have no answer of a model; give those after the agent's run")
    offered = passages_in(messages)
    output = str(message.text) if structured is None else structured
    metadata = message.response_metadata.get(METADATA_KEY)
    checked = check("\n\n".join(texts_in(output)), offered)
    if metadata is None:  # no middleware has checked it
        citations, unknown = checked.citations, checked.unknown
        verdict = searched_verdict(messages)
        message = cited_message(message, checked, verdict, is_text=structured is None)
    else:
        by_marker = {citation.marker: citation for citation in offered}
        citations = [by_marker[citation.marker] for citation in citations_in([message])]
        unknown, verdict = metadata["unknown_markers"], metadata["verdict"]
    return Answer(
        text=str(message.text),
        verdict=verdict,
        citations=citations,
        unknown_markers=unknown,
        offered=offered,
        dropped=0,
        results=[],
        output=output,
        mentions=checked.mentions if structured is None else [],
        message=message,
    )
