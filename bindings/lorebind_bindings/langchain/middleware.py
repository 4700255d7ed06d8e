"""Knowledge for agents made by `langchain.agents.create_agent`: passages for each model call."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypeAlias
from uuid import uuid4

from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
)
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk, LLMResult
from langchain_core.runnables.config import ensure_config
from langgraph.stream import StreamChannel, StreamTransformer

from lorebind_bindings.injecting import inject
from lorebind_bindings.langchain.annotating import cited_message
from lorebind_bindings.langchain.markers import (
    METADATA_KEY,
    STATE_KEY,
    Numbers,
    citations_in,
    next_marker,
    searched_verdict,
)
from lorebind_bindings.langchain.tool import knowledge_tool
from lorebind_bindings.retrieving import best_of
from lorebind_bindings.structured_output import texts_in
from lorebind_knowledge.plumbing.bridge import run
from lorebind_prompts import check, last_question, put_before_question, with_instructions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from langchain_core.tools import BaseTool
    from langgraph.runtime import Runtime
    from langgraph.stream import ProtocolEvent

    from lorebind_bindings.injecting import Injection
    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_bindings.retrieving import Verdict
    from lorebind_knowledge.service import KnowledgeService
    from lorebind_prompts import Citation, TokenCounter


class CitationsTransformer(StreamTransformer):
    """Yields each passage that an answer of the run cites, as `run.citations`.

    A citation has the keys of `response_metadata["lorebind"]["citations"]`. It comes when the
    message that cites it is complete, since markers are checked then.
    """

    _native = True  # `run.citations`, and not only `run.extensions["citations"]`
    required_stream_modes = ("values",)

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        super().__init__(scope)
        self._citations: StreamChannel[dict[str, Any]] = StreamChannel()
        self._seen: set[str] | None = None
        """The messages whose citations were yielded; None before the input of the run."""

    def init(self) -> dict[str, Any]:
        return {"citations": self._citations}

    def process(self, event: ProtocolEvent) -> bool:
        params = event["params"]
        if event["method"] != "values" or tuple(params["namespace"]) != self.scope:
            return True
        messages = params["data"].get("messages", ()) if isinstance(params["data"], dict) else ()
        is_input, seen = self._seen is None, self._seen or set()
        for message in messages:
            entry = getattr(message, "response_metadata", {}).get(METADATA_KEY)
            if not entry or message.id in seen:
                continue
            seen.add(message.id)
            if not is_input:  # the messages of earlier turns have been answered before
                for citation in entry["citations"]:
                    self._citations.push(citation)
        self._seen = seen
        return True


class KnowledgeState(AgentState[Any]):
    """The state of an agent, with the passage numbers of its middleware, by middleware name."""

    lorebind_numbers: NotRequired[Annotated[dict[str, Numbers], PrivateStateAttr]]


class KnowledgeMiddleware(AgentMiddleware[KnowledgeState, Any]):
    """Gives the model of an agent its declared instructions, and passages for the user's message.

    The knowledge is searched once per user message. By default, a miss does not change the agent's
    tools. If a binding sets `tool_fallback`, a miss adds a tool that searches the knowledge. The
    model may use it (`auto`) or has to use it before it answers (`escalate`). The `lorebind` entry
    of the answer's `response_metadata` lists the cited passages. With `stream_mode="messages"`, the
    last chunk of the answer has it. An agent can have several of these.
    """

    state_schema = KnowledgeState
    transformers = (CitationsTransformer,)

    def __init__(
        self,
        service: KnowledgeService,
        bindings: Sequence[ResolvedBinding],
        counter: TokenCounter,
        *,
        instructions: str = "",
        max_tokens: int | None = None,
        description: str = "",
        tools: Sequence[BaseTool] = (),
    ) -> None:
        """
        Args:
            service: the project's knowledge.
            bindings: the knowledge bases to search.
            counter: counts the tokens of the agent's model.
            instructions: put before the system message that `create_agent` was given.
            max_tokens: the budget of all passages together, see `inject`.
            description: the content of the knowledge, for the tool that `tool_fallback` adds.
            tools: tools that the agent always has, see `read_tools`.
        """
        super().__init__()
        self._service = service
        self._bindings = list(bindings)
        self._instructions = instructions
        self._inject = partial(inject, service, self._bindings, counter, max_tokens=max_tokens)
        self._remembered = PromptHistory()
        searchable = [binding for binding in bindings if binding.is_searchable]
        self._searches = (
            [
                knowledge_tool(
                    service, searchable, counter, description=description, max_tokens=max_tokens
                )
            ]
            if searchable
            else []
        )
        self.tools = [*self._searches, *tools]

    @property
    def name(self) -> str:
        """A name that differs from that of other middleware of the same agent."""
        return "_".join(["LorebindKnowledge", *(binding.id for binding in self._bindings)])

    def before_model(self, state: KnowledgeState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Search for the user's last message, once per message."""
        return run(self.abefore_model(state, runtime))

    async def abefore_model(
        self, state: KnowledgeState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Search for the user's last message, once per message."""
        numbers = state.get(STATE_KEY, {})
        message_id, question, history = _question(state["messages"])
        before = numbers.get(self.name)
        # A message without an id cannot be recognized, so its question is searched for again.
        if not question or (before and before["asked"] == message_id is not None):
            return None
        first = next_marker(state["messages"], numbers)
        result = await self._search(question, history, message_id, first)
        last = max((citation.number for citation in result.injection.offered), default=first - 1)
        return {
            STATE_KEY: {**numbers, self.name: Numbers(asked=message_id, first=first, last=last)}
        }

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Add the passages to the model's messages, and check the citations of its answer."""
        result = run(self._result(request.state))
        with model_call() as is_outermost:
            response = handler(self._injected(request, result))
        return self._checked(request, response, result, streams=is_outermost)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Add the passages to the model's messages, and check the citations of its answer."""
        result = await self._result(request.state)
        with model_call() as is_outermost:
            response = await handler(self._injected(request, result))
        return self._checked(request, response, result, streams=is_outermost)

    async def _result(self, state: Mapping[str, Any]) -> SearchResult | None:
        """Return what was found for the question; search again if it was forgotten or edited.

        The question is read from the state: other middleware may have added blocks to the request.
        """
        message_id, question, history = _question(state["messages"])
        gone = message_id is None  # the message was summarized away
        numbers: Numbers | None = state.get(STATE_KEY, {}).get(self.name)
        if numbers:
            message_id, first = numbers["asked"], numbers["first"]
        else:
            first = next_marker(state["messages"])
        result = (
            self._remembered.get((self._service.tenant, message_id, first)) if numbers else None
        )
        if result and (gone or result.question == question):
            return result
        return await self._search(question, history, message_id, first) if question else None

    async def _search(
        self, question: str, history: Sequence[BaseMessage], message_id: str | None, first: int
    ) -> SearchResult:
        injection = await self._inject(question, first_marker=first, history=history)
        result = SearchResult(question, injection)
        self._remembered.put((self._service.tenant, message_id, first), result)
        return result

    def _injected(
        self, request: ModelRequest[Any], result: SearchResult | None
    ) -> ModelRequest[Any]:
        escalated = result is not None and result.injection.verdict == "escalated"
        changes: dict[str, Any] = {}
        if self._instructions:
            changes["system_message"] = with_instructions(
                self._instructions, request.system_message
            )
        if self._searches and not escalated:
            # Compared by identity: a tool with the same name may be the agent's own, and stays.
            added = {id(tool) for tool in self._searches}
            changes["tools"] = [tool for tool in request.tools if id(tool) not in added]
        if result is None:
            return request.override(**changes)
        texts = [block.text for block in result.injection.blocks]
        changes["messages"] = put_before_question(request.messages, texts)
        forced = result.injection.must_search
        # Forced only before the first tool call: the model could never answer otherwise.
        if escalated and forced and isinstance(request.messages[-1], HumanMessage):
            changes["tool_choice"] = "any"
        return request.override(**changes)

    def _checked(
        self,
        request: ModelRequest[Any],
        response: ModelResponse[Any],
        search: SearchResult | None,
        *,
        streams: bool,
    ) -> ModelResponse[Any]:
        messages = request.state["messages"]
        offered = [*citations_in(messages), *(search.injection.offered if search else [])]
        verdict = search.injection.verdict if search else "none"
        if verdict == "none":
            verdict = searched_verdict(messages)
        structured = response.structured_response
        result = list(response.result)
        for at, message in enumerate(result):
            if isinstance(message, AIMessage) and (
                structured is not None or not message.tool_calls
            ):
                result[at] = answer = checked(message, offered, verdict, structured)
                if streams:
                    stream_citations(answer)
        return replace(response, result=result)


def _question(messages: Sequence[BaseMessage]) -> tuple[str | None, str, Sequence[BaseMessage]]:
    """Return the id and text of the user's last message, and the messages before it.

    The text is empty if there is no user message.
    """
    at = last_question(messages)
    if at is None:
        return None, "", ()
    return messages[at].id, str(messages[at].text).strip(), messages[:at]


Key: TypeAlias = tuple[str, str | None, int]

_MOST = 256


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The search results for a question."""

    question: str
    injection: Injection


class PromptHistory:
    """The most recent results, by tenant, id of the user's message, and first passage number.

    Results that were removed are searched for again. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[Key, SearchResult] = OrderedDict()

    def get(self, key: Key) -> SearchResult | None:
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def put(self, key: Key, result: SearchResult) -> None:
        with self._lock:
            self._entries[key] = result
            self._entries.move_to_end(key)
            if len(self._entries) > _MOST:
                self._entries.popitem(last=False)


_is_within: ContextVar[bool] = ContextVar("lorebind_model_call", default=False)


@contextmanager
def model_call() -> Iterator[bool]:
    """Yield whether no other middleware of Lorebind surrounds this one's model call.

    The surrounding one checks the answer last, and its citations include those of the others.
    """
    is_within = _is_within.get()
    token = _is_within.set(True)
    try:
        yield not is_within
    finally:
        _is_within.reset(token)


def stream_citations(message: AIMessage) -> None:
    """Send the citations of a message to those who have streamed it with `stream_mode="messages"`.

    LangGraph streams the chunks of a model, and then drops the message that a node returns if its
    id was streamed already. So the citations, which need the whole text, follow as one more chunk
    with that id, without text.
    """
    config = ensure_config()
    for handler in getattr(config.get("callbacks"), "handlers", ()):
        # The class is private to LangGraph: StreamMessagesHandler of langgraph.pregel._messages.
        if message.id not in getattr(handler, "seen", ()):
            continue
        metadata = {METADATA_KEY: message.response_metadata[METADATA_KEY]}
        chunk = AIMessageChunk(content="", id=message.id, response_metadata=metadata)
        run_id = uuid4()
        handler.on_chat_model_start(
            {}, [], run_id=run_id, tags=config["tags"], metadata=dict(config["metadata"])
        )
        handler.on_llm_new_token("", chunk=ChatGenerationChunk(message=chunk), run_id=run_id)
        handler.on_llm_end(LLMResult(generations=[]), run_id=run_id)


def checked(
    message: AIMessage, offered: Sequence[Citation], verdict: Verdict, structured: Any = None
) -> AIMessage:
    """Return a copy of a message that lists the passages that it cites, see `cited_message`.

    Args:
        message: the model's answer. Citations that other middleware has found in it are included.
        offered: the passages that the model was given.
        verdict: the verdict of the search.
        structured: the answer if it is not text; the markers are then read from its strings.
    """
    text = str(message.text) if structured is None else "\n\n".join(texts_in(structured))
    cited = check(text, [*citations_in([message]), *offered])
    before = message.response_metadata.get(METADATA_KEY, {})
    verdict = best_of([verdict, before.get("verdict", "none")])
    is_text = structured is None
    return cited_message(message, cited, verdict, is_text=is_text, with_passages=False)
