"""The end of a chain: what a model said, as an answer with its citations."""

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
"""What prompts have asked, by the id of the chain's run, for as long as that run goes on.

All steps of a chain are given the same object as the id of its run, and nobody keeps it afterwards.
"""


class CitationParser(Runnable[Any, Answer]):
    """Turns the message of a model into an `Answer`, as in `prompt | model | citations`.

    The passages are those that the prompt of the same chain gave. So neither the prompt nor the
    parser may be in a chain or wrapper of its own, such as `prompt.with_retry()`; the whole chain
    may be. A message that an agent's middleware has checked needs no prompt: it tells which
    passages it cites, and no others. A stream gives the answer at its end.
    """

    def __init__(self, asked_in_runs: AskedInRuns) -> None:
        """
        Args:
            asked_in_runs: where the prompts of the project leave what they asked.
        """
        self._asked_in_runs = asked_in_runs

    @property
    def OutputType(self) -> Any:  # noqa: N802  # the name that LangChain gives it
        """Any: pydantic can make no schema of an `Answer`."""
        return Any

    def invoke(
        self,
        input: Any,  # noqa: A002  # the name that LangChain gives it
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Answer:
        """The answer that a message gives.

        Raises:
            UsageError: it is no message of a model, or nothing tells which passages were given.
        """
        return self._call_with_config(self._answer, input, config, run_type="parser")

    async def ainvoke(
        self,
        input: Any,  # noqa: A002  # the name that LangChain gives it
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Answer:
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
                f"citations are read in the message of a model, not in a {type(given).__name__}; "
                "put project.citations() right behind the model"
            )
        run_id = run_manager.parent_run_id
        asked = None if run_id is None else self._asked_in_runs.get(run_id)
        if asked is not None:
            return finished(asked, message)
        said = message.response_metadata.get(METADATA_KEY)
        if said is None:
            raise UsageError(
                "no prompt of this project stands in the same chain; write it as one chain, "
                "project.prompt('docs') | model | project.citations(), and put wrappers such as "
                "with_retry() around the whole of it"
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
