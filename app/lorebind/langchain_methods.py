"""The knowledge of a project wherever LangChain is used: retriever, prompt, tool, agent, answer."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from lorebind_bindings import ModelPool, Place, Request, agent_request, answer, stream
from lorebind_knowledge.bridge import sync
from lorebind_knowledge.extras import import_extra

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
    from lorebind_knowledge.configuration import LoadedProject
    from lorebind_knowledge.service import KnowledgeService
    from lorebind_prompts import TokenCounter


_ASKED = {field.name for field in fields(Request)} - {"prompt"}


class Faces:
    """What of a project is handed to LangChain.

    All are asked for at a place: knowledge bases by name, or else what is bound where `workflow`,
    `task` and `agent` name it, which without any of them is the project itself. All count tokens as
    the model does that answers there, unless `model` names another: a declared id, a provider's
    model as `openai:gpt-4o-mini`, or any LangChain chat model.

    All raise NotFoundError for a knowledge base, workflow, task, agent or model that is not there,
    and UsageError where nothing is bound.
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
        """A place said once: an object with the methods below, which take all but the place.

        Raises:
            NotFoundError: no such knowledge base, workflow, task or agent.
            UsageError: nothing is bound there, and no agent with tools or a schema is there.
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
        """A LangChain `BaseRetriever`.

        Args:
            kb_ids, workflow, task, agent: see the class.
            settings: fields of `retrieval` that are to differ here, such as `top_k`, and fields of
                the retriever, such as `k`, `tags` or `metadata`.
        """
        from lorebind_bindings import LorebindRetriever  # half a second of LangChain

        known = LorebindRetriever.model_fields.keys() - {"service", "bindings"}
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
        """A Runnable to put before any chat model, as in `project.prompt("docs") | model`.

        Args:
            kb_ids, workflow, task, agent, model: see the class.
            template: the user's message, which names `{{ .question }}`.
            instructions: the system message; None means the agent's.
            settings: fields of `retrieval` that are to differ here, such as `top_k`; but
                `max_tokens` is the budget of all passages together.
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
            self._models.at(place.answers(), model)[1],
            template=template,
            instructions=instructions,
            max_tokens=max_tokens,
            asked_in_runs=self._asked_in_runs,
        )

    def citations(self) -> CitationParser:
        """A Runnable to end a chain: `project.prompt("docs") | model | project.citations()`.

        It turns the model's message into an `Answer`, as `generate` gives it.
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
        """A LangChain tool by which an agent searches with words of its own.

        Args:
            kb_ids, workflow, task, agent, model: see the class.
            name: what the model calls it; None means `search_` and the ids.
            description: what is in there, for the model; None means what the declarations say.
            settings: fields of `retrieval` that are to differ here, such as `top_k`; but
                `max_tokens` is the budget of all passages of a call together.
        """
        from lorebind_bindings import knowledge_tool

        max_tokens = settings.pop("max_tokens", None)
        place = Place(self.config, kb_ids, workflow, task, agent)
        return knowledge_tool(
            self.knowledge,
            place.bindings(**settings),
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
        """Middleware for `langchain.agents.create_agent`: passages at each call of the model.

        Args:
            kb_ids, workflow, task, agent, model: see the class.
            settings: fields of `retrieval` that are to differ here, such as `top_k`; but
                `max_tokens` is the budget of all passages together.
        """
        import_extra("langchain.agents", extra="workflow", purpose="the middleware of an agent")
        from lorebind_bindings import KnowledgeMiddleware

        max_tokens = settings.pop("max_tokens", None)
        place = Place(self.config, kb_ids, workflow, task, agent)
        return KnowledgeMiddleware(
            self.knowledge,
            self._models.condensing(place.bindings(**settings)),
            self._models.at(place.answers(), model)[1],
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
        """Ask a chat model, with the knowledge of a place before the question.

        Args:
            question: what is asked, and what is searched for unless `query` says otherwise.
            kb_ids, workflow, task, agent, model: see the class.
            request: fields of `lorebind_bindings.Request` (`query`, `instructions`, `history`,
                `attachments`, `retrieved_contexts`, `max_tokens`, `config`, `tools`,
                `max_iterations`, `output_schema`), and fields of `retrieval` that are to differ
                here, such as `top_k`. Instructions, tools and schema are by default the agent's.

        Raises:
            UsageError: a blank question, or a tool of the agent that is none.
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
        """The same as `agenerate`, part by part.

        Iterate over it once, in a plain loop or an asynchronous one; then it has the whole
        `answer`. The search is made when reading begins, for the tenant of this call.
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
    """The methods of `Faces` for one place; what they take beside it, they take here too."""

    def __init__(self, faces: Faces, kb_ids: tuple[str, ...], place: dict[str, Any]) -> None:
        self._faces, self._kb_ids, self._place = faces, kb_ids, place

    def retriever(self, **settings: Unpack[RetrieverSettings]) -> LorebindRetriever:
        return self._faces.retriever(*self._kb_ids, **self._place, **settings)

    def prompt(
        self,
        *,
        model: str | BaseChatModel | None = None,
        template: str | None = None,
        instructions: str | None = None,
        **settings: Unpack[RetrievalSettings],
    ) -> KnowledgePrompt:
        return self._faces.prompt(
            *self._kb_ids,
            **self._place,
            model=model,
            template=template,
            instructions=instructions,
            **settings,
        )

    def citations(self) -> CitationParser:
        return self._faces.citations()

    def tool(
        self,
        *,
        model: str | BaseChatModel | None = None,
        name: str | None = None,
        description: str | None = None,
        **settings: Unpack[RetrievalSettings],
    ) -> BaseTool:
        return self._faces.tool(
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
        return self._faces.middleware(*self._kb_ids, **self._place, model=model, **settings)

    async def agenerate(
        self,
        question: str,
        *,
        model: str | BaseChatModel | None = None,
        **request: Unpack[GenerateSettings],
    ) -> Answer:
        return await self._faces.agenerate(
            question, *self._kb_ids, **self._place, model=model, **request
        )

    def stream(
        self,
        question: str,
        *,
        model: str | BaseChatModel | None = None,
        **request: Unpack[GenerateSettings],
    ) -> AnswerStream:
        return self._faces.stream(question, *self._kb_ids, **self._place, model=model, **request)

    generate = sync(agenerate)
    astream = stream
