"""`AtPlace`: the knowledge at a place, as a retriever, prompt, tool, middleware or answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import lorebind_bindings  # which imports a name at its first use: LangChain takes half a second
from lorebind_bindings.observing import answer_span, describe_answer
from lorebind_bindings.resolver import both_filters
from lorebind_config.declarations.retrieval import RetrievalDeclaration
from lorebind_config.errors import MissingDependencyError, UsageError
from lorebind_config.plugins import import_extra
from lorebind_knowledge.plumbing.bridge import sync
from lorebind_knowledge.records import QueryResult
from lorebind_knowledge.retrieval.base import check_question

if TYPE_CHECKING:
    from deepagents.backends.protocol import BackendProtocol
    from langchain_core.language_models import BaseChatModel
    from langchain_core.tools import BaseTool

    from lorebind_bindings import (
        Answer,
        AnswerStream,
        AskedInRuns,
        BindingScope,
        CitationParser,
        GenerateSettings,
        KnowledgeMiddleware,
        KnowledgePrompt,
        LorebindRetriever,
        ModelPool,
        Request,
        ResolvedBinding,
        RetrievalSettings,
        RetrieverSettings,
    )
    from lorebind_knowledge.records import MatchingTerms
    from lorebind_knowledge.service import KnowledgeService
    from lorebind_prompts import TokenCounter


class AtPlace:
    """The knowledge of a project at a place, for LangChain; `project.at(…)` returns it.

    Each method searches the knowledge bases that the place names, or else the bindings in effect
    for its workflow, task and agent; without any of these, the project's bindings, or all its
    knowledge bases if it binds none.

    Tokens are counted for the model that answers there. `model` overrides that model: pass a
    declared id, a provider's model such as `openai:gpt-4o-mini`, or any LangChain chat model.

    All methods raise NotFoundError for an unknown model, and UsageError if nothing is bound. Where
    `knowledge: []` says so, nothing is searched: the verdict is `none`, and a retriever returns no
    documents. Only `tool` raises UsageError there.
    """

    def __init__(
        self,
        place: BindingScope,
        knowledge: KnowledgeService,
        models: ModelPool,
        asked_in_runs: AskedInRuns,
    ) -> None:
        """Get an object of this class from `Project.at`, do not create it directly."""
        self._place, self._knowledge, self._models = place, knowledge, models
        self._asked_in_runs = asked_in_runs

    def narrowed(self, filters: Mapping[str, Any] | None) -> AtPlace:
        """Return the same place, where passages must also meet a condition.

        The `filters` of other methods replace the declared filter; this condition is added to it,
        and to the conditions of earlier calls.

        Args:
            filters: the condition, such as `{"team": "sales"}`; None adds none.
        """
        narrow = both_filters(self._place.narrow, filters or {})
        place = replace(self._place, narrow=narrow)
        return AtPlace(place, self._knowledge, self._models, self._asked_in_runs)

    async def aquery(self, question: str, **settings: Unpack[RetrievalSettings]) -> QueryResult:
        """Return the best passages for a question, in one ranking, best first.

        Named knowledge bases with the same embedder are ranked as if they were one, with the
        settings of the first of them, but each with its own declared filter. Bound ones are
        searched with their own settings. The scores of different embedders cannot be compared:
        their passages are ordered by rank, and the result says so in `by_ranks` and in a notice.

        Args:
            question: any text that is not blank.
            settings: fields of `retrieval` to override. The result has at most `top_k` passages in
                total, by default the largest `top_k` of any knowledge base.

        Raises:
            NotIngestedError: nothing has been ingested into any of them; others are `skipped`.
            UsageError: the question is blank, or a setting is invalid.
            EmbedderError, StoreError: an outage of any of them.
        """
        return (await self._query(question, settings))[0]

    async def aexplain_query(
        self, question: str, **settings: Unpack[RetrievalSettings]
    ) -> tuple[QueryResult, list[ResolvedBinding], MatchingTerms]:
        """Query as `query` does, and also return what explains the result.

        That is each knowledge base with every setting in effect and the location that set it, and
        the terms that each passage has in common with the question; see
        `KnowledgeBase.query_explained`.
        """
        result, bindings = await self._query(question, settings)
        terms: MatchingTerms = {}
        for binding in bindings:
            handle = self._knowledge.open(binding.id, binding.workflow)
            terms |= await handle.matching_terms(question, result)
        return result, bindings, terms

    async def _query(
        self, question: str, settings: RetrievalSettings
    ) -> tuple[QueryResult, list[ResolvedBinding]]:
        place, knowledge = self._place, self._knowledge
        bindings = place.bindings(**settings)
        if not bindings and (scope := place.unbound_by()):
            check_question(question)
            nothing = f"{scope.location}: {scope.scope} binds nothing, so nothing was searched"
            return QueryResult([], "", [], [], 0.0, verdict="miss", shortfall=nothing), []
        handles = [knowledge.open(binding.id, binding.workflow) for binding in bindings]
        if place.kb_ids:
            leaders = [bindings[at] for at in knowledge.first_alike(handles)]
            bindings = [
                _as_leader(binding, leader)
                for binding, leader in zip(bindings, leaders, strict=True)
            ]
        each = [binding.settings for binding in bindings]
        return await knowledge.query_several(handles, question, each), bindings

    def retriever(self, **settings: Unpack[RetrieverSettings]) -> LorebindRetriever:
        """Return a LangChain `BaseRetriever`.

        Args:
            settings: fields of `retrieval` to override, such as `top_k`, and fields of the
                retriever, such as `k`, `tags` or `metadata`.
        """
        retriever = lorebind_bindings.LorebindRetriever
        names = retriever.model_fields.keys() - RetrievalDeclaration.model_fields.keys()
        fields = {name: value for name, value in settings.items() if name in names}
        differing = {name: value for name, value in settings.items() if name not in names}
        return retriever(self._knowledge, self._place.bindings(**differing), **fields)

    def prompt(
        self,
        *,
        model: str | BaseChatModel | None = None,
        template: str | None = None,
        instructions: str | None = None,
        **settings: Unpack[RetrievalSettings],
    ) -> KnowledgePrompt:
        """Return a Runnable to put before a chat model, as in `docs.prompt() | model`.

        Args:
            model: the model to count tokens for, see the class.
            template: the user's message, which contains `{{ .question }}`.
            instructions: the system message; None uses the instructions of the agent.
            settings: fields of `retrieval` to override, such as `top_k`. Here, `max_tokens` is the
                budget of all passages together.
        """
        max_tokens = settings.pop("max_tokens", None)
        agent = self._place.answers()
        if instructions is None:
            instructions = agent.instructions if agent else ""
        return lorebind_bindings.KnowledgePrompt(
            self._knowledge,
            self._models.condensing(self._place.bindings(**settings)),
            self._models.at(agent, model)[1],
            template=template,
            instructions=instructions,
            max_tokens=max_tokens,
            asked_in_runs=self._asked_in_runs,
        )

    def citations(self) -> CitationParser:
        """Return a Runnable to end a chain: `docs.prompt() | model | docs.citations()`.

        It turns the model's message into an `Answer`, as returned by `generate`. It also takes the
        state or the messages of an agent: `project.citations().invoke(agent.invoke(…))`.
        """
        return lorebind_bindings.CitationParser(self._asked_in_runs)

    def tool(
        self,
        *,
        model: str | BaseChatModel | None = None,
        name: str | None = None,
        description: str | None = None,
        **settings: Unpack[RetrievalSettings],
    ) -> BaseTool:
        """Return a LangChain tool with which an agent searches by its own queries.

        Args:
            model: the model to count tokens for, see the class.
            name: the tool's name for the model; None combines `search_` and the ids.
            description: the tool's description for the model; None uses the declared descriptions.
            settings: fields of `retrieval` to override, such as `top_k`. Here, `max_tokens` is the
                budget of all passages of a call together.
        """
        max_tokens = settings.pop("max_tokens", None)
        bindings = self._tool_bindings(settings)
        return lorebind_bindings.knowledge_tool(
            self._knowledge,
            bindings,
            self._models.at(self._place.answers(), model)[1],
            name=name,
            description=self._place.description() if description is None else description,
            max_tokens=max_tokens,
        )

    def tools(
        self,
        *,
        model: str | BaseChatModel | None = None,
        description: str | None = None,
        **settings: Unpack[RetrievalSettings],
    ) -> list[BaseTool]:
        """Return LangChain tools with which an agent searches and reads: it can list and count.

        `search` is the tool that `tool` returns. `list_documents` lists the documents with their
        metadata, `find` returns the lines that contain exact words or match a regular expression,
        and `fetch` the lines of a document. All read the index alone. A vector database that
        another program fills can only be searched.

        Args:
            model: the model to count tokens for, see the class.
            description: the description of `search` for the model; None uses the declared ones.
            settings: fields of `retrieval` to override, such as `filters`. Here, `max_tokens` is
                the budget of each call.
        """
        max_tokens = settings.get("max_tokens")
        bindings = self._tool_bindings(settings)
        search = self.tool(model=model, name="search", description=description, **settings)
        reading = lorebind_bindings.reading_tools(
            self._knowledge,
            bindings,
            self._models.at(self._place.answers(), model)[1],
            about=self._place.descriptions(bindings),
            max_tokens=max_tokens,
        )
        return [search, *reading]

    def backend(self, **settings: Unpack[RetrievalSettings]) -> BackendProtocol:
        """Return the documents as a read-only file system for an agent of `deepagents`.

        The agent's tools `ls`, `read_file`, `grep` and `glob` see `/KNOWLEDGE_BASE/URI`. Combine it
        with a place to write by the `CompositeBackend` of `deepagents`.

        Args:
            settings: fields of `retrieval` to override, such as `filters`.

        Raises:
            MissingDependencyError: the package `deepagents` is not installed.
        """
        try:
            from lorebind_bindings.langchain.deep_agents import KnowledgeBackend
        except ModuleNotFoundError as error:
            raise MissingDependencyError(
                f"the backend of a deep agent needs the package {error.name!r}; install it with: "
                "pip install deepagents"
            ) from error
        return KnowledgeBackend(self._knowledge, self._tool_bindings(settings))

    def _tool_bindings(self, settings: RetrievalSettings) -> list[ResolvedBinding]:
        bindings = self._place.bindings(**settings)
        if not bindings and (scope := self._place.unbound_by()):
            raise UsageError(
                f"{scope.location}: {scope.scope} binds nothing, so a tool could search nothing; "
                "leave it out, or name a knowledge base, as in project.tool('docs')"
            )
        return bindings

    def middleware(
        self, *, model: str | BaseChatModel | None = None, **settings: Unpack[RetrievalSettings]
    ) -> KnowledgeMiddleware:
        """Return middleware for `langchain.agents.create_agent` that adds passages to model calls.

        It also sends the instructions of the agent, before a `system_prompt` of `create_agent`.

        Args:
            model: the model to count tokens for, see the class.
            settings: fields of `retrieval` to override, such as `top_k`. Here, `max_tokens` is the
                budget of all passages together.
        """
        import_extra("langchain.agents", extra="workflow", purpose="the middleware of an agent")
        max_tokens = settings.pop("max_tokens", None)
        agent, bindings = self._place.answers(), self._place.bindings(**settings)
        counter = self._models.at(agent, model)[1]
        return lorebind_bindings.KnowledgeMiddleware(
            self._knowledge,
            self._models.condensing(bindings),
            counter,
            instructions=agent.instructions if agent else "",
            max_tokens=max_tokens,
            description=self._place.description(),
            tools=lorebind_bindings.read_tools(self._place, self._knowledge, counter, bindings),
        )

    async def agenerate(
        self,
        question: str,
        *,
        model: str | BaseChatModel | None = None,
        **request: Unpack[GenerateSettings],
    ) -> Answer:
        """Search, put the passages before the question, and let a chat model answer.

        Args:
            question: the question, which is also the search query unless `query` overrides it.
            model: the model that answers, see the class.
            request: fields of `lorebind_bindings.Request` (`query`, `instructions`, `history`,
                `attachments`, `retrieved_contexts`, `max_tokens`, `config`, `tools`,
                `max_iterations`, `output_schema`, `model_settings`), and fields of `retrieval` to
                override, such as `top_k`. Instructions, tools and schema default to those of the
                agent.

        Raises:
            UsageError: the question is blank, or a tool of the agent is not a tool.
            LorebindError: retrieval or the model failed.
        """
        ready = self._ready(model, question, request)
        with answer_span(self._knowledge.events, ready[0]) as span:
            answer = await lorebind_bindings.answer(self._knowledge, *ready)
            describe_answer(span, answer.verdict, answer.citations)
            return answer

    def stream(
        self,
        question: str,
        *,
        model: str | BaseChatModel | None = None,
        **request: Unpack[GenerateSettings],
    ) -> AnswerStream:
        """Stream the answer of `generate` part by part; the arguments are the same.

        Iterate over the stream once, with `for` or `async for`; afterwards its `answer` is the
        whole answer. The search starts when you start reading, for the tenant of this call.
        """
        ready = self._ready(model, question, request)
        span = partial(answer_span, self._knowledge.events, ready[0], is_current=False)
        return lorebind_bindings.AnswerStream(self._knowledge, *ready, span=span)

    def _ready(
        self, model: str | BaseChatModel | None, question: str, more: Mapping[str, Any]
    ) -> tuple[list[ResolvedBinding], BaseChatModel, TokenCounter, Request]:
        from lorebind_bindings.settings import REQUEST_SETTINGS  # only answers need it

        place = self._place
        chat_model, counter = self._models.at(place.answers(), model)
        names = REQUEST_SETTINGS & more.keys()
        settings = {name: value for name, value in more.items() if name not in names}
        searches = more.get("retrieved_contexts") is None
        bindings = place.resolve(**settings) if searches else []
        fields = lorebind_bindings.agent_request(place, self._knowledge, counter, bindings)
        fields |= {name: more[name] for name in names if more[name] is not None}
        request = lorebind_bindings.Request(question, **fields)
        if searches and not (bindings or request.tools or request.output_schema is not None):
            place.bindings(**settings)  # raises an error unless `knowledge: []` says so
        return self._models.condensing(bindings), chat_model, counter, request

    query = sync(aquery)
    explain_query = sync(aexplain_query)
    generate = sync(agenerate)
    astream = stream


def _as_leader(binding: ResolvedBinding, leader: ResolvedBinding) -> ResolvedBinding:
    """Return a binding with the settings of another one, except its filter: what a declaration
    hides stays hidden beside other knowledge bases."""
    settings, provenance = leader.settings, leader.provenance
    if (filters := binding.settings.filters) != settings.filters:
        settings = settings.model_copy(update={"filters": filters})
        provenance = provenance | {"filters": binding.provenance["filters"]}
    return replace(binding, settings=settings, provenance=provenance)
