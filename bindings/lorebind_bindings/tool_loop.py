"""The rounds in which a model calls tools before it answers."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from lorebind_bindings.mcp_servers import McpServer
from lorebind_bindings.observing import tool_call
from lorebind_bindings.structured_output import ANSWER_TOOL
from lorebind_config.errors import LorebindError, ModelError, UsageError, did_you_mean
from lorebind_config.redaction import redacted_message
from lorebind_knowledge.events import Events
from lorebind_knowledge.plumbing.bridge import call_client, only_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
    from langchain_core.messages.tool import ToolCall
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool

    from lorebind_bindings.retrieving import Verdict
    from lorebind_bindings.structured_output import StructuredOutput
    from lorebind_prompts import Citation


MOST_SEARCHES = 5
"""Maximum number of rounds in which the model may search before it has to answer."""


OnReply: TypeAlias = "Callable[[ToolCall, ToolMessage, float], None]"
"""Receives each tool call, its result, and its duration in seconds."""


@dataclass(frozen=True, slots=True)
class _Runtime:
    """The part of the conversation that a knowledge tool is given, see `first_marker`."""

    state: dict[str, Any]
    tools: Sequence[BaseTool]
    tool_call_id: str


@dataclass(slots=True)
class ToolLoop:
    """The tools of a model for one answer, and the calls it has made."""

    declared: Sequence[BaseTool | McpServer] = ()
    """The tools, and the servers whose tools `open` adds."""
    max_iterations: int = 10
    """Maximum number of rounds of tool calls; another round raises an error."""
    search: BaseTool | None = None
    """A search tool, added because too little was found. It is removed after `MOST_SEARCHES`
    rounds."""
    is_forced: bool = False
    """Whether the model has to call a tool before it answers."""
    output: StructuredOutput | None = None
    """The schema that the answer must match."""
    config: RunnableConfig | None = None
    numbered: int = 0
    """Number of passages that already have a number."""
    on_reply: OnReply | None = None
    events: Events = field(default_factory=Events)
    """Receives `tool_called`, and makes spans."""
    rounds: list[AIMessage] = field(default_factory=list)
    """The model's messages before its answer, one per round."""
    tool_replies: list[BaseMessage] = field(default_factory=list)
    """The replies of the tools."""
    tools: list[BaseTool] = field(default_factory=list)

    async def open(self) -> None:
        """Open the servers of tools. `close` must follow.

        Raises:
            ToolError: a server cannot be used.
            UsageError: two tools have the same name.
        """
        opening = [server.open() for server in self._servers()]
        results = await asyncio.gather(*opening, return_exceptions=True)
        for failure in results:
            if isinstance(failure, BaseException):
                raise failure
        served: Iterator[Any] = iter(results)
        self.tools = []
        for item in self.declared:
            self.tools += next(served) if isinstance(item, McpServer) else [item]
        hint = "; set 'prefix' for an MCP server, or choose its 'tools'"
        refuse_repeated(self.tools, hint=hint if self._servers() else "")

    async def close(self) -> None:
        """Close the servers of tools."""
        await asyncio.gather(*(server.close() for server in self._servers()))

    def _servers(self) -> list[McpServer]:
        return [item for item in self.declared if isinstance(item, McpServer)]

    def client(self, model: BaseChatModel) -> Any:
        """Return the model with the tools that it may call now.

        A model that does not support tools is asked without the search tool.

        Raises:
            ModelError: the model does not support tools, but the request has some.
        """
        offered = self._offered()
        if not offered:
            return model
        must_call = (self.is_forced and not self.rounds) or (self.output and self.output.tool)
        try:
            return model.bind_tools(offered, **({"tool_choice": "any"} if must_call else {}))
        except NotImplementedError as error:  # raised by LangChain's base class
            if self.tools:
                raise ModelError(
                    f"the chat model, a {type(model).__name__}, does not support tools; name "
                    "another model for this agent, or give it no tools"
                ) from error
            return model

    async def replies(self, response: AIMessage) -> list[BaseMessage]:
        """Return the messages that follow a response; none if the response is the answer.

        Raises:
            ModelError: the model called tools in too many rounds, or its answer was wrong twice.
            LorebindError: a search failed.
        """
        from langchain_core.messages import HumanMessage

        calls = [*response.tool_calls, *response.invalid_tool_calls]
        offered = {tool.name: tool for tool in self._offered()}
        for number, call in enumerate(calls):  # some models return no ids, but replies need one
            call["id"] = call["id"] or f"call_{len(self.rounds)}_{number}"
        is_answer = not (calls and offered) or any(call["name"] == ANSWER_TOOL for call in calls)
        wrong = self.output.take(response) if self.output and is_answer else ""
        if (self.output and self.output.is_given) or not (wrong or (calls and offered)):
            return []
        if not wrong and len(self.rounds) >= self.max_iterations:
            raise ModelError(
                f"the model called tools more than {self.max_iterations} times without an answer; "
                "raise max_iterations, or tell it in its instructions when to stop"
            )
        self.rounds.append(response)
        asking = [self._reply(call, offered, response, wrong) for call in response.tool_calls]
        # All calls end before an error is raised, so that none continues in the background.
        results = await asyncio.gather(*asking, return_exceptions=True)
        for failure in results:
            if isinstance(failure, BaseException):
                raise failure
        messages: list[Any] = list(results)
        for broken in response.invalid_tool_calls:
            problem = f"The arguments are not JSON: {broken['error']}"
            messages.append(_error(broken, wrong if broken["name"] == ANSWER_TOOL else problem))
        self.tool_replies += messages
        return messages or [HumanMessage(wrong)]

    @property
    def offered(self) -> list[Citation]:
        """The passages that the searches returned."""
        from lorebind_bindings.langchain.markers import citations_in

        return list(citations_in(self.tool_replies)) if self.tool_replies else []

    @property
    def verdict(self) -> Verdict:
        """The best verdict of the searches; `none` if there were none."""
        from lorebind_bindings.langchain.markers import searched_verdict

        return searched_verdict(self.tool_replies) if self.tool_replies else "none"

    def _offered(self) -> list[BaseTool]:
        names = {tool.name for tool in self.tools}
        offered = list(self.tools)
        may_search = len(self.rounds) < min(MOST_SEARCHES, self.max_iterations)
        if self.search is not None and may_search and self.search.name not in names:
            offered.append(self.search)
        if self.output is not None and self.output.tool is not None:
            offered.append(self.output.tool)
        return offered

    async def _reply(
        self, call: ToolCall, offered: dict[str, BaseTool], response: AIMessage, wrong: str
    ) -> ToolMessage:
        if call["name"] == ANSWER_TOOL and self.output is not None:
            return _error(call, wrong)
        start = time.perf_counter()
        if call["name"] in offered:
            with tool_call(self.events, call) as observed:
                reply = await self._result(call, offered, response)
                observed.data["status"] = reply.status
        else:  # no name of a metric: models invent any
            text = f"There is no tool {call['name']!r}; {did_you_mean(call['name'], offered)}"
            reply = _error(call, text)
        if self.on_reply is not None:
            self.on_reply(call, reply, time.perf_counter() - start)
        return reply

    async def _result(
        self, call: ToolCall, offered: dict[str, BaseTool], response: AIMessage
    ) -> ToolMessage:
        name = call["name"]
        try:
            with only_errors():
                return await self._called(name, call, offered, response)
        except LorebindError:
            raise
        except Exception as error:  # tools raise anything; the model may correct its call
            if _is_signal(error):
                raise
            return _error(call, redacted_message(error, holder=offered[name]))

    async def _called(
        self, name: str, call: ToolCall, offered: dict[str, BaseTool], response: AIMessage
    ) -> ToolMessage:
        from langchain_core.messages import ToolMessage

        from lorebind_bindings.langchain.markers import MOST_KEY, STATE_KEY

        tool, arguments = offered[name], dict(call["args"])
        is_search = MOST_KEY in (tool.metadata or {})
        if is_search:
            # The passages of the prompt count like those of a middleware, see `next_marker`.
            numbers = {"": {"asked": None, "first": 1, "last": self.numbered}}
            state = {"messages": [*self.tool_replies, response], STATE_KEY: numbers}
            arguments["runtime"] = _Runtime(state, list(offered.values()), str(call["id"]))
        request = {"type": "tool_call", "name": name, "args": arguments, "id": call["id"]}
        is_async_only = getattr(tool, "func", tool) is None
        if is_search or is_async_only:
            result = await tool.ainvoke(request, self.config)
        else:
            result = await call_client(tool.invoke, tool.ainvoke, request, self.config)
        if not isinstance(result, ToolMessage):
            raise UsageError(
                f"tool {name!r} returned a {type(result).__name__}, which only a LangGraph agent "
                "understands; return text or JSON values"
            )
        return result


def refuse_repeated(
    tools: Sequence[BaseTool | McpServer], of: str = "the agent", hint: str = ""
) -> None:
    """Check the names of tools.

    Args:
        tools: the tools; servers, whose tools are not known yet, are skipped.
        of: what has the tools, in the message.
        hint: what to do, in the message.

    Raises:
        UsageError: two tools have the same name.
    """
    names = [tool.name for tool in tools if not isinstance(tool, McpServer)]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise UsageError(f"{of} has two tools with the name {name!r}{hint}")


def _error(call: Any, text: str) -> ToolMessage:
    from langchain_core.messages import ToolMessage

    return ToolMessage(text, tool_call_id=call["id"], name=call["name"] or "", status="error")


def _is_signal(error: Exception) -> bool:
    """Check whether this is a LangGraph signal for the surrounding run, such as an interrupt."""
    errors = sys.modules.get("langgraph.errors")
    return errors is not None and isinstance(error, errors.GraphBubbleUp)
