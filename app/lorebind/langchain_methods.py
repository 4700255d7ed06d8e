"""A project's knowledge for LangChain: retriever, prompt, tool, middleware and answers."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from lorebind_bindings import ModelPool, Place, Request, agent_request, answer, stream
from lorebind_config.declarations import RetrievalDeclaration
from lorebind_config.errors import UsageError
from lorebind_config.extras import import_extra
from lorebind_knowledge.bridge import sync

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

    from langchain_core.language_models import BaseChatModel
    from langchain_core.tools import BaseTool

    from lorebind_bindings import (
        Answer,
        AnswerStream,
        AskedInRuns,
        CitationParser,
        GenerateSettings,
        KnowledgeMiddleware,
        KnowledgePrompt,
        LorebindRetriever,
        ResolvedBinding,
        RetrievalSettings,
        RetrieverSettings,
    )
    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_knowledge.service import KnowledgeService
    from lorebind_prompts import TokenCounter


_ASKED = {field.name for field in fields(Request)} - {"prompt"}


class LangChainMethods:
    """The methods of `Project` for LangChain.

    Each method searches the knowledge bases that you name, or else the bindings in effect for the
    given `workflow`, `task` and `agent`. Without any of these, it uses the project's bindings.

    Tokens are counted for the model that answers there. `model` overrides that model: pass a
    declared id, a provider's model such as `openai:gpt-4o-mini`, or any LangChain chat model.

    All methods raise NotFoundError for an unknown knowledge base, workflow, task, agent or model,
    and UsageError if nothing is bound. Where `knowledge: []` says so, nothing is searched: the
    verdict is `none`, and a retriever returns no documents. Only `tool` raises UsageError there.
    """

    config: LoadedProject
    knowledge: KnowledgeService
    _models: ModelPool
    _asked_in_runs: AskedInRuns

    def at(
        self,
        *kb_ids: str,
        workflow: str | None = None,
        task: str | None = None,
        agent: str | None = None,
    ) -> AtPlace:
        """Return an object with the methods below, for these knowledge bases or bindings.

        Its methods take the same arguments, without the location.

        Args:
            kb_ids: the knowledge bases; without them, the bindings of the location are used.
            workflow: the id of a workflow.
            task: the id of one of its tasks.
            agent: the id of an agent.

        Raises:
            NotFoundError: no such knowledge base, workflow, task or agent.
            UsageError: nothing is bound there, and no agent there has tools or a schema.
        """
        place = Place(self.config, kb_ids, workflow, task, agent)
        answers = place.answers()
        if answers is None or not (answers.tools or answers.output_schema is not None):
            place.bindings()
        return AtPlace(self, kb_ids, {"workflow": workflow, "task": task, "agent": agent})

    def retriever(
        self,
        *kb_ids: str,
        workflow: str | None = None,
        task: str | None = None,
        agent: str | None = None,
        **settings: Unpack[RetrieverSettings],
    ) -> LorebindRetriever:
        """Return a LangChain `BaseRetriever`.

        Args:
            kb_ids: the knowledge bases; without them, the bindings of the location are used.
            workflow: the id of a workflow.
            task: the id of one of its tasks.
            agent: the id of an agent.
            settings: fields of `retrieval` to override, such as `top_k`, and fields of the
                retriever, such as `k`, `tags` or `metadata`.
        """
        from lorebind_bindings import LorebindRetriever  # importing LangChain takes half a second

        known = LorebindRetriever.model_fields.keys() - RetrievalDeclaration.model_fields.keys()
        fields = {name: value for name, value in settings.items() if name in known}
        differing = {name: value for name, value in settings.items() if name not in known}
        place = Place(self.config, kb_ids, workflow, task, agent)
        return LorebindRetriever(self.knowledge, place.bindings(**differing), **fields)

    def prompt(
        self,
        *kb_ids: str,
        workflow: str | None = None,
        task: str | None = None,
        agent: str | None = None,
        model: str | BaseChatModel | None = None,
        template: str | None = None,
        instructions: str | None = None,
        **settings: Unpack[RetrievalSettings],
    ) -> KnowledgePrompt:
        """Return a Runnable to put before a chat model, as in `project.prompt("docs") | model`.

        Args:
            kb_ids: the knowledge bases; without them, the bindings of the location are used.
            workflow: the id of a workflow.
            task: the id of one of its tasks.
            agent: the id of an agent.
            model: the model to count tokens for, see the class.
            template: the user's message, which contains `{{ .question }}`.
            instructions: the system message; None uses the instructions of the agent.
            settings: fields of `retrieval` to override, such as `top_k`. Here, `max_tokens` is the
                budget of all passages together.
        """
        from lorebind_bindings import KnowledgePrompt

        max_tokens = settings.pop("max_tokens", None)
        place = Place(self.config, kb_ids, workflow, task, agent)
        agent_here = place.answers()
        if instructions is None:
            instructions = agent_here.instructions if agent_here else ""
        return KnowledgePrompt(
            self.knowledge,
            self._models.condensing(place.bindings(**settings)),
            self._models.at(agent_here, model)[1],
            template=template,
            instructions=instructions,
            max_tokens=max_tokens,
            asked_in_runs=self._asked_in_runs,
        )

    def model(self, model_id: str | None = None) -> BaseChatModel:
        """Return a chat model, such as for `create_agent(project.model("default"))`.

        Args:
            model_id: a declared id, or a provider's model such as `openai:gpt-4o-mini`; None means
                the project's default model.

        Raises:
            NotFoundError: no such model.
            ModelError, MissingDependencyError: the model cannot be created.
        """
        return self._models.get(model_id)[0]

    def citations(self) -> CitationParser:
        """Return a Runnable to end a chain: `project.prompt("docs") | model | project.citations()`.

        It turns the model's message into an `Answer`, as returned by `generate`. It also takes the
        state or the messages of an agent: `project.citations().invoke(agent.invoke(…))`.
        """
        from lorebind_bindings import CitationParser

        return CitationParser(self._asked_in_runs)

    def tool(
        self,
        *kb_ids: str,
        workflow: str | None = None,
        task: str | None = None,
        agent: str | None = None,
        model: str | BaseChatModel | None = None,
        name: str | None = None,
        description: str | None = None,
        **settings: Unpack[RetrievalSettings],
    ) -> BaseTool:
        """Return a LangChain tool with which an agent searches by its own queries.

        Args:
            kb_ids: the knowledge bases; without them, the bindings of the location are used.
            workflow: the id of a workflow.
            task: the id of one of its tasks.
            agent: the id of an agent.
            model: the model to count tokens for, see the class.
            name: the tool's name for the model; None combines `search_` and the ids.
            description: the tool's description for the model; None uses the declared descriptions.
            settings: fields of `retrieval` to override, such as `top_k`. Here, `max_tokens` is the
                budget of all passages of a call together.
        """
        from lorebind_bindings import knowledge_tool

        max_tokens = settings.pop("max_tokens", None)
        place = Place(self.config, kb_ids, workflow, task, agent)
        bindings = place.bindings(**settings)
        if not bindings and (scope := place.unbound_by()):
            raise UsageError(
                f"{scope.location}: {scope.scope} binds nothing, so a tool could search nothing; "
                "leave it out, or name a knowledge base, as in project.tool('docs')"
            )
        return knowledge_tool(
            self.knowledge,
            bindings,
            self._models.at(place.answers(), model)[1],
            name=name,
            description=place.description() if description is None else description,
            max_tokens=max_tokens,
        )

    def middleware(
        self,
        *kb_ids: str,
        workflow: str | None = None,
        task: str | None = None,
        agent: str | None = None,
        model: str | BaseChatModel | None = None,
        **settings: Unpack[RetrievalSettings],
    ) -> KnowledgeMiddleware:
        """Return middleware for `langchain.agents.create_agent` that adds passages to model calls.

        It also sends the instructions of the agent, before a `system_prompt` of `create_agent`.

        Args:
            kb_ids: the knowledge bases; without them, the bindings of the location are used.
            workflow: the id of a workflow.
            task: the id of one of its tasks.
            agent: the id of an agent.
            model: the model to count tokens for, see the class.
            settings: fields of `retrieval` to override, such as `top_k`. Here, `max_tokens` is the
                budget of all passages together.
        """
        import_extra("langchain.agents", extra="workflow", purpose="the middleware of an agent")
        from lorebind_bindings import KnowledgeMiddleware

        max_tokens = settings.pop("max_tokens", None)
        place = Place(self.config, kb_ids, workflow, task, agent)
        agent_here = place.answers()
        return KnowledgeMiddleware(
            self.knowledge,
            self._models.condensing(place.bindings(**settings)),
            self._models.at(agent_here, model)[1],
            instructions=agent_here.instructions if agent_here else "",
            max_tokens=max_tokens,
            description=place.description(),
        )

    async def agenerate(
        self,
        question: str,
        *kb_ids: str,
        workflow: str | None = None,
        task: str | None = None,
        agent: str | None = None,
        model: str | BaseChatModel | None = None,
        **request: Unpack[GenerateSettings],
    ) -> Answer:
        """Search, put the passages before the question, and let a chat model answer.

        Args:
            question: the question, which is also the search query unless `query` overrides it.
            kb_ids: the knowledge bases; without them, the bindings of the location are used.
            workflow: the id of a workflow.
            task: the id of one of its tasks.
            agent: the id of an agent.
            model: the model that answers, see the class.
            request: fields of `lorebind_bindings.Request` (`query`, `instructions`, `history`,
                `attachments`, `retrieved_contexts`, `max_tokens`, `config`, `tools`,
                `max_iterations`, `output_schema`), and fields of `retrieval` to override, such as
                `top_k`. Instructions, tools and schema default to those of the agent.

        Raises:
            UsageError: the question is blank, or a tool of the agent is not a tool.
            LorebindError: retrieval or the model failed.
        """
        place = Place(self.config, kb_ids, workflow, task, agent)
        return await answer(self.knowledge, *self._ready(place, model, question, request))

    def stream(
        self,
        question: str,
        *kb_ids: str,
        workflow: str | None = None,
        task: str | None = None,
        agent: str | None = None,
        model: str | BaseChatModel | None = None,
        **request: Unpack[GenerateSettings],
    ) -> AnswerStream:
        """Stream the answer of `agenerate` part by part; the arguments are the same.

        Iterate over the stream once, with `for` or `async for`; afterwards its `answer` is the
        whole answer. The search starts when you start reading, for the tenant of this call.
        """
        place = Place(self.config, kb_ids, workflow, task, agent)
        return stream(self.knowledge, *self._ready(place, model, question, request))

    def _ready(
        self,
        place: Place,
        model: str | BaseChatModel | None,
        question: str,
        more: Mapping[str, Any],
    ) -> tuple[list[ResolvedBinding], BaseChatModel, TokenCounter, Request]:
        agent = place.answers()
        answering, counter = self._models.at(agent, model)
        asked = agent_request(
            self.config, self.knowledge, counter, agent, workflow=place.workflow, task=place.task
        )
        given = {name: value for name, value in more.items() if value is not None}
        asked |= {name: value for name, value in given.items() if name in _ASKED}
        settings = {name: value for name, value in more.items() if name not in _ASKED}
        request = Request(question, **asked)
        searched = request.retrieved_contexts is None
        may_lack = request.tools or request.output_schema is not None
        found = place.bindings_or_none if may_lack else place.bindings
        bindings = self._models.condensing(found(**settings)) if searched else []
        return bindings, answering, counter, request

    generate = sync(agenerate)
    astream = stream


class AtPlace:
    """The methods of `LangChainMethods` for one location, with the same remaining arguments."""

    def __init__(
        self, methods: LangChainMethods, kb_ids: tuple[str, ...], place: dict[str, Any]
    ) -> None:
        self._methods, self._kb_ids, self._place = methods, kb_ids, place

    def retriever(self, **settings: Unpack[RetrieverSettings]) -> LorebindRetriever:
        return self._methods.retriever(*self._kb_ids, **self._place, **settings)

    def prompt(
        self,
        *,
        model: str | BaseChatModel | None = None,
        template: str | None = None,
        instructions: str | None = None,
        **settings: Unpack[RetrievalSettings],
    ) -> KnowledgePrompt:
        return self._methods.prompt(
            *self._kb_ids,
            **self._place,
            model=model,
            template=template,
            instructions=instructions,
            **settings,
        )

    def citations(self) -> CitationParser:
        return self._methods.citations()

    def tool(
        self,
        *,
        model: str | BaseChatModel | None = None,
        name: str | None = None,
        description: str | None = None,
        **settings: Unpack[RetrievalSettings],
    ) -> BaseTool:
        return self._methods.tool(
            *self._kb_ids,
            **self._place,
            model=model,
            name=name,
            description=description,
            **settings,
        )

    def middleware(
        self, *, model: str | BaseChatModel | None = None, **settings: Unpack[RetrievalSettings]
    ) -> KnowledgeMiddleware:
        return self._methods.middleware(*self._kb_ids, **self._place, model=model, **settings)

    async def agenerate(
        self,
        question: str,
        *,
        model: str | BaseChatModel | None = None,
        **request: Unpack[GenerateSettings],
    ) -> Answer:
        return await self._methods.agenerate(
            question, *self._kb_ids, **self._place, model=model, **request
        )

    def stream(
        self,
        question: str,
        *,
        model: str | BaseChatModel | None = None,
        **request: Unpack[GenerateSettings],
    ) -> AnswerStream:
        return self._methods.stream(question, *self._kb_ids, **self._place, model=model, **request)

    generate = sync(agenerate)
    astream = stream
