"""Knowledge for agents made by `langchain.agents.create_agent`: passages at each call of the model.

They stand before the user's last message for the length of the call; the agent's state, and what a
checkpointer saves of it, never holds them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
)
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.channels.untracked_value import UntrackedValue

from lorebind_bindings.injecting import inject
from lorebind_bindings.langchain.markers import STATE_KEY, Found, citations_in, next_marker
from lorebind_bindings.langchain.tool import knowledge_tool
from lorebind_knowledge.bridge import run
from lorebind_prompts import check, last_question, put_before_question

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langgraph.runtime import Runtime

    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_knowledge.service import KnowledgeService
    from lorebind_prompts import TokenCounter

METADATA_KEY = "lorebind"
"""Under this an answer's `response_metadata` says `verdict`, `citations` and `unknown_markers`."""


class KnowledgeState(AgentState[Any]):
    """The state of an agent; what was found in it is saved nowhere, and seen by nobody else."""

    lorebind_found: NotRequired[Annotated[Found | None, UntrackedValue, PrivateStateAttr]]


class KnowledgeMiddleware(AgentMiddleware[KnowledgeState, Any]):
    """Puts what an agent may know before its model.

    The knowledge is searched once for each of the user's messages. A miss leaves the agent's tools
    alone; where a binding says `tool_fallback`, it adds a tool that searches the knowledge, which
    the model may use (`auto`) or has to before it answers (`escalate`). The message of the answer
    says in its `response_metadata`, under `lorebind`, what it cites.
    """

    state_schema = KnowledgeState

    def __init__(
        self,
        service: KnowledgeService,
        bindings: Sequence[ResolvedBinding],
        counter: TokenCounter,
        *,
        max_tokens: int | None = None,
        description: str = "",
    ) -> None:
        """
        Args:
            service: the project's knowledge.
            bindings: what is searched.
            counter: counts the tokens of the agent's model.
            max_tokens: the budget of all passages together, see `inject`.
            description: what is in there, for the tool that `tool_fallback` adds.
        """
        super().__init__()
        self._service = service
        self._bindings = list(bindings)
        self._counter = counter
        self._max_tokens = max_tokens
        searchable = [one for one in bindings if one.settings.tool_fallback != "never"]
        self.tools = (
            [
                knowledge_tool(
                    service, searchable, counter, description=description, max_tokens=max_tokens
                )
            ]
            if searchable
            else []
        )

    @property
    def name(self) -> str:
        """What tells it from other middleware of the same agent."""
        return "_".join(["LorebindKnowledge", *(binding.id for binding in self._bindings)])

    def before_agent(self, state: KnowledgeState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        return run(self.abefore_agent(state, runtime))

    async def abefore_agent(
        self, state: KnowledgeState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Search for the user's last message."""
        return {STATE_KEY: await self._found(state["messages"], None)}

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        found = run(self._found(request.messages, request.state.get(STATE_KEY)))
        return self._checked(request, handler(self._injected(request, found)), found)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Give the model what was found beside the messages, and check what it cites."""
        found = await self._found(request.messages, request.state.get(STATE_KEY))
        return self._checked(request, await handler(self._injected(request, found)), found)

    async def _found(self, messages: Sequence[BaseMessage], before: Any) -> Found | None:
        """What was found for the question, before or now: over an interrupt nothing is kept."""
        at = last_question(messages)
        question = "" if at is None else str(messages[at].text).strip()
        if not question:
            return None
        if isinstance(before, Found) and before.question == question:
            return before
        injection = await inject(
            self._service,
            self._bindings,
            self._counter,
            question,
            max_tokens=self._max_tokens,
            first_marker=next_marker(messages[:at]),
        )
        return Found(question, injection)

    def _injected(self, request: ModelRequest[Any], found: Found | None) -> ModelRequest[Any]:
        escalated = found is not None and found.injection.verdict == "escalated"
        own = {tool.name for tool in self.tools}
        changes: dict[str, Any] = {}
        if own and not escalated:
            changes["tools"] = [
                tool for tool in request.tools if getattr(tool, "name", None) not in own
            ]
        if found is None:
            return request.override(**changes)
        texts = [block.text for block in found.injection.blocks]
        changes["messages"] = put_before_question(request.messages, texts)
        forced = any(
            one.verdict == "escalated" and one.binding.settings.tool_fallback == "escalate"
            for one in found.injection.results
        )
        # Once a tool has answered, the model may; it would else never come to an end.
        if escalated and forced and isinstance(request.messages[-1], HumanMessage):
            changes["tool_choice"] = "any"
        return request.override(**changes)

    def _checked(
        self, request: ModelRequest[Any], response: ModelResponse[Any], found: Found | None
    ) -> ModelResponse[Any]:
        offered = [*citations_in(request.messages), *(found.injection.offered if found else [])]
        verdict = found.injection.verdict if found else "none"
        result: list[BaseMessage] = []
        for message in response.result:
            if isinstance(message, AIMessage) and not message.tool_calls:
                checked = check(str(message.text), offered)
                said = {
                    "verdict": verdict,
                    "citations": [one.as_data(content=False) for one in checked.citations],
                    "unknown_markers": checked.unknown,
                }
                metadata = {**message.response_metadata, METADATA_KEY: said}
                message = message.model_copy(update={"response_metadata": metadata})
            result.append(message)
        return replace(response, result=result)
