"""Answer one question: retrieve, assemble, ask the model, check the citations."""

from __future__ import annotations

from contextlib import ExitStack, aclosing, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from lorebind_bindings.injecting import inject, inject_given, preview
from lorebind_bindings.models import naming_failures
from lorebind_bindings.observing import describe_answer, model_call
from lorebind_bindings.prompt_template import literal
from lorebind_bindings.structured_output import StructuredOutput, texts_in
from lorebind_bindings.tool_loop import ToolLoop
from lorebind_config.errors import UsageError
from lorebind_config.namespace import tenant as as_tenant
from lorebind_knowledge.plumbing.bridge import call, call_client, run, sync
from lorebind_knowledge.plumbing.lanes import lane
from lorebind_prompts import check

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Callable,
        Iterator,
        Mapping,
        Sequence,
    )
    from contextlib import AbstractContextManager

    from langchain_core.documents import Document
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        MessageLikeRepresentation,
    )
    from langchain_core.messages.ai import UsageMetadata
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool

    from lorebind_bindings.injecting import Injection, PromptPreview
    from lorebind_bindings.mcp_servers import McpServer
    from lorebind_bindings.observing import Observed
    from lorebind_bindings.prompt_template import Block, Prompt
    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_bindings.retrieving import BoundResult, Verdict
    from lorebind_bindings.tool_loop import OnReply
    from lorebind_knowledge.events import Span
    from lorebind_knowledge.service import KnowledgeService
    from lorebind_prompts import Citation, Mention, RetrievedContext, TokenCounter


@dataclass(frozen=True, slots=True)
class Answer:
    """The text of a model's answer, with the passages that it is based on."""

    text: str
    """The text of the answer."""
    verdict: Verdict
    """The overall result of the search, see `Verdict`."""
    citations: list[Citation]
    """The passages that the answer cites, in the order in which it first mentions them."""
    unknown_markers: list[str]
    """Markers in the answer that belong to no passage."""
    offered: list[Citation]
    """All passages that were put into the prompt or returned by search tools."""
    dropped: int
    """Number of passages that were found but did not fit the token budget."""
    results: list[BoundResult]
    """The search result of each binding, whether its passages were offered or not."""
    usage: dict[str, Any] = field(default_factory=dict)
    """`prompt_tokens` and `completion_tokens`, `tokenizer` and `exact`, and under `model` the usage
    that the model reported."""
    output: Any = None
    """The value that matches the `output_schema`, with `text` as its JSON. Without a schema, the
    same as `text`."""
    blocks: list[Block] = field(default_factory=list)
    """The blocks that were put into the prompt, with the `inject_as` of their bindings."""
    mentions: list[Mention] = field(default_factory=list)
    """Every place in the text that cites a passage; empty with an `output_schema`."""
    message: AIMessage | None = field(default=None, repr=False, compare=False)
    """The model's message: its text has LangChain's `Citation` annotations, and
    `response_metadata["lorebind"]` has the verdict, the citations and the unknown markers."""


@dataclass(frozen=True, slots=True)
class Request:
    """The prompt for a model, with everything that shapes the answer."""

    prompt: str | Prompt
    """A literal text, or a template with places for passages. Passages without a place in the
    template are put before it."""
    query: str | None = None
    """The text to search the knowledge for, see also `condense`. None means the prompt without
    passages."""
    instructions: str = ""
    """The system message."""
    history: Sequence[MessageLikeRepresentation] = ()
    """Earlier messages: LangChain messages, pairs of role and text, or mappings."""
    attachments: Sequence[Mapping[str, Any]] = ()
    """Images and files as LangChain content blocks. They follow the prompt."""
    retrieved_contexts: Sequence[RetrievedContext | Document] | None = None
    """Passages from any retriever. If they are given, nothing is searched."""
    max_tokens: int | None = None
    """The budget of all passages together in tokens, see `assemble_together`."""
    config: RunnableConfig | None = None
    """Callbacks, tags and metadata for the model calls and the tool calls."""
    tools: Sequence[BaseTool | McpServer] = ()
    """Tools that the model may call before it answers, and servers that have some."""
    max_iterations: int = 10
    """Maximum number of rounds of tool calls. Parallel calls count as one round."""
    output_schema: Mapping[str, Any] | None = None
    """The JSON Schema of the answer. None means that the answer is text."""
    model_settings: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the model's calls, such as `temperature`, if the model has them."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request that is ready to be sent to the model."""

    messages: list[BaseMessage]
    """The messages to send. Tool calls and their replies are appended."""
    injection: Injection
    counter: TokenCounter
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of each call of the model."""
    loop: ToolLoop = field(default_factory=ToolLoop)
    earlier: Sequence[Citation] = ()
    """Passages that earlier messages contain."""

    @property
    def offered(self) -> list[Citation]:
        """All passages that the model can cite by now."""
        return [*self.earlier, *self.injection.offered, *self.loop.offered]

    async def goes_on(self, response: AIMessage) -> bool:
        """Append the replies to a response, and return whether to ask the model again."""
        replies = await self.loop.replies(response)
        if replies:
            self.messages.extend([response, *replies])
        return bool(replies)


async def answer(
    service: KnowledgeService,
    bindings: Sequence[ResolvedBinding],
    model: BaseChatModel,
    counter: TokenCounter,
    request: Request,
    on_reply: OnReply | None = None,
) -> Answer:
    """Ask a chat model, with passages from the bound knowledge bases put before the prompt.

    Args:
        service: the project's knowledge.
        bindings: the knowledge bases to search, with their settings and budgets.
        model: any LangChain chat model.
        counter: counts the tokens of that model.
        request: the question and the settings of the answer.
        on_reply: is notified of each tool call after its result.

    Raises:
        ModelError: the model failed, or its answer does not match the schema.
        LorebindError: retrieval failed, see `retrieve`.
    """
    with as_tenant(service.tenant):  # for the code of tools
        prepared = await _prepare(service, bindings, model, counter, request, on_reply)
        try:
            await prepared.loop.open()
            while True:
                with model_call(service.events, model) as observed, naming_failures(model):
                    client = prepared.loop.client(model)
                    response: AIMessage = await call_client(
                        partial(client.invoke, **prepared.settings),
                        partial(client.ainvoke, **prepared.settings),
                        prepared.messages,
                        request.config,
                    )
                    observed.reply(response)
                if not await prepared.goes_on(response):
                    return await _finish(prepared, response)
        finally:
            await prepared.loop.close()


class AnswerStream:
    """The text parts of an answer while the model produces them. Iterate over it once.

    When the iteration ends, `answer` holds the whole answer with its citations checked. If you stop
    reading, the model call is cancelled. The stream belongs to the tenant that created it, even if
    it is read as another tenant. An answer with an `output_schema` is yielded as one part, after it
    was found to match.
    """

    def __init__(
        self,
        service: KnowledgeService,
        bindings: Sequence[ResolvedBinding],
        model: BaseChatModel,
        counter: TokenCounter,
        request: Request,
        on_reply: OnReply | None = None,
        span: Callable[[], AbstractContextManager[Span]] | None = None,
    ) -> None:
        """See `answer` for the arguments. The errors that it raises are raised while reading.

        Args:
            service: see `answer`, as for the following ones.
            bindings: see there.
            model: see there.
            counter: see there.
            request: see there.
            on_reply: see there.
            span: opens a span around the search and the calls, which is not current.
        """
        self._prepare = partial(_prepare, service, bindings, model, counter, request, on_reply)
        self._model, self._config = model, request.config
        self._calling = partial(model_call, service.events, model, is_current=False)
        self._tenant = service.tenant  # the stream may be read as another tenant
        self._open_span, self._spans = span, ExitStack()
        self._span: Span | None = None
        self._begun = False
        self._whole: Any = None
        self._prepared: ModelRequest | None = None
        self._text = ""
        self._answer: Answer | None = None

    @property
    def results(self) -> list[BoundResult]:
        """The search result of each binding, once `search` was called or reading has begun."""
        return [] if self._prepared is None else self._prepared.injection.results

    @property
    def citations(self) -> list[Citation]:
        """The passages that the text read so far cites, in the order of their first mention."""
        return [] if self._prepared is None else check(self._text, self._prepared.offered).citations

    @property
    def answer(self) -> Answer:
        """The complete answer.

        Raises:
            UsageError: the stream has not been read to its end.
        """
        if self._answer is None:
            raise UsageError("the answer is not complete; read the stream to its end first")
        return self._answer

    async def asearch(self) -> list[BoundResult]:
        """Search now, before the model is called, and return the results; then read the stream.

        Raises:
            LorebindError: retrieval failed, see `retrieve`.
        """
        await self._ready()
        return self.results

    search = sync(asearch)

    async def apreview(self) -> PromptPreview:
        """Search now, and return the prompt; the model is called only if the stream is read.

        Raises:
            LorebindError: retrieval failed, see `retrieve`.
        """
        prepared = await self._ready()
        self._close_span()  # the stream may never be read
        with lane("wait"):
            return await call(preview, prepared.messages, prepared.injection, prepared.counter)

    preview = sync(apreview)

    async def __aiter__(self) -> AsyncGenerator[str, None]:
        self._begin()
        prepared = await self._ready()
        try:
            with self._reading():
                await prepared.loop.open()
                while True:
                    self._whole = None
                    with self._call() as observed:
                        client = prepared.loop.client(self._model)
                        chunks: Any = client.astream(
                            prepared.messages, self._config, **prepared.settings
                        )
                        async with aclosing(chunks):
                            while (chunk := await self._anext(chunks)) is not None:
                                if (text := self._heard(chunk)) and not prepared.loop.output:
                                    yield text
                        observed.reply(self._whole)
                    if not await self._goes_on(prepared):
                        break
                self._end(await _finish(prepared, self._whole))
                if prepared.loop.output:
                    yield self.answer.text
        finally:
            await prepared.loop.close()

    def __iter__(self) -> Iterator[str]:
        self._begin()
        prepared = run(self._ready())
        try:
            with self._reading():
                run(prepared.loop.open())
                while True:
                    self._whole = None
                    with self._call() as observed:
                        client = prepared.loop.client(self._model)
                        chunks: Any = client.stream(
                            prepared.messages, self._config, **prepared.settings
                        )
                        with closing(chunks):
                            while (chunk := self._next(chunks)) is not None:
                                if (text := self._heard(chunk)) and not prepared.loop.output:
                                    yield text
                        observed.reply(self._whole)
                    if not run(self._goes_on(prepared)):
                        break
                self._end(finished(prepared, self._whole))
                if prepared.loop.output:
                    yield self.answer.text
        finally:
            run(prepared.loop.close())

    # The tenant and the span of a stream are set for each step: between two of them, the caller's
    # own apply.

    @contextmanager
    def _step(self) -> Iterator[None]:
        current = nullcontext() if self._span is None else self._span.current()
        with as_tenant(self._tenant), current:
            yield

    async def _ready(self) -> ModelRequest:
        if self._prepared is None:
            self._enter_span()
            try:
                with self._step():
                    self._prepared = await self._prepare()
            except BaseException as error:
                self._close_span(type(error), error, error.__traceback__)
                raise
        return self._prepared

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.push(self._close_span)  # with an error of this block, not one of the caller
            self._enter_span()
            yield

    def _enter_span(self) -> None:
        if self._open_span is not None and self._span is None:
            self._span = self._spans.enter_context(self._open_span())

    def _close_span(self, *failure: Any) -> None:
        self._spans.__exit__(*(failure or (None, None, None)))
        self._span = None

    @contextmanager
    def _call(self) -> Iterator[Observed]:
        with ExitStack() as stack:
            with self._step():
                observed = stack.enter_context(self._calling())
            stack.enter_context(naming_failures(self._model))
            yield observed

    async def _anext(self, chunks: AsyncIterator[Any]) -> Any:
        with self._step():
            return await anext(chunks, None)

    def _next(self, chunks: Iterator[Any]) -> Any:
        with self._step():
            return next(chunks, None)

    async def _goes_on(self, prepared: ModelRequest) -> bool:
        with self._step():
            return await prepared.goes_on(self._whole)

    def _end(self, answer: Answer) -> None:
        self._answer = answer
        if self._span is not None:
            describe_answer(self._span, answer.verdict, answer.citations)

    def _begin(self) -> None:
        if self._begun:
            raise UsageError("a stream can be read only once; ask for a new one to read it again")
        self._begun = True

    def _heard(self, chunk: Any) -> str:
        self._whole = chunk if self._whole is None else self._whole + chunk
        text = str(chunk.text)
        self._text += text
        return text


async def _prepare(
    service: KnowledgeService,
    bindings: Sequence[ResolvedBinding],
    model: BaseChatModel,
    counter: TokenCounter,
    request: Request,
    on_reply: OnReply | None,
) -> ModelRequest:
    from lorebind_prompts import build_messages, messages_of  # importing LangChain takes 0.5 s

    prompt = literal(request.prompt) if isinstance(request.prompt, str) else request.prompt
    places = [binding.settings.inject_as for binding in bindings]
    history = messages_of(request.history, "history")
    if request.retrieved_contexts is not None:
        injection = inject_given(request.retrieved_contexts, counter, max_tokens=request.max_tokens)
    else:
        injection = await inject(
            service,
            bindings,
            counter,
            request.query or prompt.question(places),
            max_tokens=request.max_tokens,
            history=history,
            config=request.config,
        )
    loop = ToolLoop(
        request.tools,
        request.max_iterations,
        config=request.config,
        numbered=len(injection.offered),
        on_reply=on_reply,
        events=service.events,
    )
    if request.output_schema is not None:
        loop.output = StructuredOutput(request.output_schema, model)
    if injection.verdict == "escalated":
        from lorebind_bindings.langchain.tool import knowledge_tool

        searchable = [binding for binding in bindings if binding.is_searchable]
        loop.search = knowledge_tool(service, searchable, counter, max_tokens=request.max_tokens)
        loop.is_forced = injection.must_search
    before, question = prompt.filled(injection.blocks, places)
    instructions = [request.instructions, loop.output.instructions if loop.output else ""]
    messages = build_messages(
        question=question,
        instructions="\n\n".join(filter(None, instructions)),
        blocks=before,
        history=history,
        attachments=request.attachments,
    )
    return ModelRequest(messages, injection, counter, request.model_settings, loop)


async def _finish(prepared: ModelRequest, response: AIMessage) -> Answer:
    """Return the answer. Counting the tokens of a long prompt would block the event loop."""
    with lane("wait"):
        return await call(finished, prepared, response)


def finished(prepared: ModelRequest, response: AIMessage) -> Answer:
    """Turn a response into an `Answer`, with its citations checked."""
    from langchain_core.messages.ai import add_usage

    from lorebind_bindings.langchain.annotating import cited_message
    from lorebind_prompts import count_messages

    injection, counter, loop = prepared.injection, prepared.counter, prepared.loop
    offered = prepared.offered
    output = loop.output.value if loop.output else str(response.text)
    checked = check("\n\n".join(texts_in(output)), offered)
    usage = {
        "prompt_tokens": count_messages(prepared.messages, counter),
        "completion_tokens": counter.count(loop.output.text if loop.output else output),
        "tokenizer": counter.name,
        "exact": counter.exact,
    }
    spent: UsageMetadata | None = None
    for message in [*loop.rounds, response]:
        spent = add_usage(spent, message.usage_metadata) if message.usage_metadata else spent
    if spent:
        usage["model"] = dict(spent)
    verdict = loop.verdict if injection.verdict == "none" else injection.verdict
    return Answer(
        text=loop.output.text if loop.output else output,
        verdict=verdict,
        citations=checked.citations,
        unknown_markers=checked.unknown,
        offered=offered,
        dropped=injection.truncated,
        results=injection.results,
        usage=usage,
        output=output,
        blocks=injection.blocks,
        mentions=[] if loop.output else checked.mentions,
        message=cited_message(response, checked, verdict, is_text=not loop.output),
    )
