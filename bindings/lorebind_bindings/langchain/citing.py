"""The last step of a chain: a model's message as an answer with its citations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID
from weakref import WeakKeyDictionary

from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable

from lorebind_bindings.answering import Answer, Asked, finished
from lorebind_bindings.langchain.markers import METADATA_KEY, citations_in
from lorebind_knowledge.errors import UsageError

if TYPE_CHECKING:
    from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
    from langchain_core.runnables import RunnableConfig

AskedInRuns: TypeAlias = WeakKeyDictionary[UUID, Asked]
"""The requests that prompts have made, by the run id of the chain, for as long as the run lasts.

All steps of a chain receive the same object as the id of its run. Nothing else holds a reference to
it, so an entry disappears when the run ends.
"""


class CitationParser(Runnable[Any, Answer]):
    """Turns the message of a model into an `Answer`, as in `prompt | model | citations`.

    The passages are those that the prompt of the same chain offered. So neither the prompt nor the
    parser may have a chain or wrapper of its own, such as `prompt.with_retry()`. Wrap the whole
    chain instead. A message that an agent's middleware has checked needs no prompt: it lists the
    passages that it cites, and only those are in the answer. When streaming, the answer is yielded
    once, at the end.
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

        Raises:
            UsageError: the input is not a message of a model, or it is unknown which passages the
                model was given.
        """
        return self._call_with_config(self._answer, input, config, run_type="parser")

    async def ainvoke(
        self,
        input: Any,  # noqa: A002  # the name that LangChain gives it
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Answer:
        """Async version of `invoke`."""

        async def parse(given: Any, run_manager: AsyncCallbackManagerForChainRun) -> Answer:
            return self._answer(given, run_manager)

        return await self._acall_with_config(parse, input, config, run_type="parser")

    def _answer(
        self,
        given: Any,
        run_manager: CallbackManagerForChainRun | AsyncCallbackManagerForChainRun,
    ) -> Answer:
        message = AIMessage(given) if isinstance(given, str) else given
        if not isinstance(message, AIMessage):
            raise UsageError(
                f"citations are read from a model's message, not from a {type(given).__name__}; "
                "put project.citations() directly after the model"
            )
        run_id = run_manager.parent_run_id
        asked = None if run_id is None else self._asked_in_runs.get(run_id)
        if asked is not None:
            return finished(asked, message)
        said = message.response_metadata.get(METADATA_KEY)
        if said is None:
            raise UsageError(
                "no prompt of this project is in the same chain; write it as one chain, "
                "project.prompt('docs') | model | project.citations(), and put wrappers such as "
                "with_retry() around the whole chain"
            )
        cited = list(citations_in([message]))
        return Answer(
            text=str(message.text),
            verdict=said["verdict"],
            citations=cited,
            unknown_markers=said["unknown_markers"],
            offered=cited,
            dropped=0,
            results=[],
            output=str(message.text),
        )
