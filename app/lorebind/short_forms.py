"""The methods of `Project` that are short for those of `KnowledgeBase` and `AtPlace`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from lorebind.at_place import AtPlace
from lorebind.knowledge_base import KnowledgeBase
from lorebind_bindings import BindingScope
from lorebind_knowledge.plumbing.bridge import sync

if TYPE_CHECKING:
    from langchain_core.documents import Document
    from langchain_core.language_models import BaseChatModel
    from langchain_core.tools import BaseTool

    from lorebind.knowledge_base import IngestSettings
    from lorebind_bindings import (
        Answer,
        AnswerStream,
        AskedInRuns,
        CitationParser,
        GenerateSettings,
        KnowledgeMiddleware,
        KnowledgePrompt,
        LorebindRetriever,
        ModelPool,
        RetrievalSettings,
        RetrieverSettings,
    )
    from lorebind_bindings.settings import PromptSettings, ReadSettings, ToolSettings
    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_knowledge.documents.listing import DocumentInfo, KnowledgeStats
    from lorebind_knowledge.ingest.report import IngestPlan, IngestReport
    from lorebind_knowledge.records import QueryResult
    from lorebind_knowledge.service import KnowledgeService


class ShortForms:
    """The methods of `Project` for one knowledge base, and for LangChain."""

    config: LoadedProject
    knowledge: KnowledgeService
    _models: ModelPool
    _asked_in_runs: AskedInRuns

    def knowledge_base(self, kb_id: str, *, workflow: str | None = None) -> KnowledgeBase:
        """Return a knowledge base, which has all operations on it.

        Args:
            kb_id: the id of the knowledge base.
            workflow: the workflow that can use it, if a workflow declares it.

        Raises:
            NotFoundError: no such knowledge base or workflow.
        """
        place = BindingScope(self.config, (kb_id,), workflow)
        return KnowledgeBase(place, self.knowledge, self._models, self._asked_in_runs)

    def at(
        self,
        *kb_ids: str,
        workflow: str | None = None,
        task: str | None = None,
        agent: str | None = None,
    ) -> AtPlace:
        """Return an object with the methods for LangChain, for these knowledge bases or bindings.

        Args:
            kb_ids: the knowledge bases; without them, the bindings of the location are used.
            workflow: the id of a workflow.
            task: the id of one of its tasks.
            agent: the id of an agent.

        Raises:
            NotFoundError: no such knowledge base, workflow, task or agent.
            UsageError: nothing is bound there, and no agent there has tools or a schema.
        """
        BindingScope(self.config, kb_ids, workflow, task, agent).check()
        return self._at(kb_ids, workflow, task, agent)

    def _at(
        self,
        kb_ids: tuple[str, ...],
        workflow: str | None = None,
        task: str | None = None,
        agent: str | None = None,
    ) -> AtPlace:
        place = BindingScope(self.config, kb_ids, workflow, task, agent)
        return AtPlace(place, self.knowledge, self._models, self._asked_in_runs)

    # Short forms: `KnowledgeBase` and `AtPlace` document the arguments, results and errors.

    async def aingest(
        self, kb_id: str, *, workflow: str | None = None, **settings: Unpack[IngestSettings]
    ) -> IngestReport:
        """Update the index of a knowledge base; see `KnowledgeBase.ingest`."""
        return await self.knowledge_base(kb_id, workflow=workflow).aingest(**settings)

    async def aplan(
        self,
        kb_id: str,
        *,
        workflow: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        strategy: str = "upsert",
    ) -> IngestPlan:
        """Return what an ingest would do now; see `KnowledgeBase.plan`."""
        kb = self.knowledge_base(kb_id, workflow=workflow)
        return await kb.aplan(inputs=inputs, strategy=strategy)

    async def aquery(
        self,
        kb_id: str,
        question: str,
        *,
        workflow: str | None = None,
        **settings: Unpack[RetrievalSettings],
    ) -> QueryResult:
        """Return the best passages of a knowledge base; see `KnowledgeBase.query`."""
        return await self.knowledge_base(kb_id, workflow=workflow).aquery(question, **settings)

    async def aquery_many(
        self,
        kb_ids: Sequence[str],
        question: str,
        *,
        workflow: str | None = None,
        task: str | None = None,
        agent: str | None = None,
        **settings: Unpack[RetrievalSettings],
    ) -> QueryResult:
        """Return the best passages of several knowledge bases; see `AtPlace.query`.

        Without `kb_ids`, it searches what is bound at the workflow, task or agent; without any of
        these, what the project binds, or all its knowledge bases if it binds none.
        """
        return await self._at(tuple(kb_ids), workflow, task, agent).aquery(question, **settings)

    async def adocuments(
        self,
        kb_id: str,
        *,
        state: str | None = None,
        q: str = "",
        format: str | None = None,
        filters: Mapping[str, Any] | None = None,
        limit: int | None = None,
        after: str | None = None,
        before: str | None = None,
        workflow: str | None = None,
    ) -> list[DocumentInfo]:
        """Return the documents of a knowledge base; see `KnowledgeBase.documents`."""
        return await self.knowledge_base(kb_id, workflow=workflow).adocuments(
            state=state,
            q=q,
            format=format,
            filters=filters,
            limit=limit,
            after=after,
            before=before,
        )

    async def aadd_documents(
        self,
        kb_id: str,
        documents: Sequence[Document | Mapping[str, Any]],
        *,
        workflow: str | None = None,
        run_id: str | None = None,
    ) -> IngestReport:
        """Add documents to a knowledge base; see `KnowledgeBase.add_documents`."""
        kb = self.knowledge_base(kb_id, workflow=workflow)
        return await kb.aadd_documents(documents, run_id=run_id)

    async def adelete_document(
        self, kb_id: str, document: str, *, workflow: str | None = None
    ) -> DocumentInfo:
        """Delete a document that was added; see `KnowledgeBase.delete_document`."""
        return await self.knowledge_base(kb_id, workflow=workflow).adelete_document(document)

    async def astats(self, kb_id: str, *, workflow: str | None = None) -> KnowledgeStats:
        """Return statistics about an index; see `KnowledgeBase.stats`."""
        return await self.knowledge_base(kb_id, workflow=workflow).astats()

    def retriever(
        self,
        *kb_ids: str,
        workflow: str | None = None,
        task: str | None = None,
        agent: str | None = None,
        **settings: Unpack[RetrieverSettings],
    ) -> LorebindRetriever:
        """Return a LangChain retriever; short for `at(*kb_ids, …).retriever(…)`."""
        return self._at(kb_ids, workflow, task, agent).retriever(**settings)

    def prompt(
        self,
        *kb_ids: str,
        workflow: str | None = None,
        task: str | None = None,
        agent: str | None = None,
        **settings: Unpack[PromptSettings],
    ) -> KnowledgePrompt:
        """Return a Runnable to put before a chat model; short for `at(*kb_ids, …).prompt(…)`."""
        return self._at(kb_ids, workflow, task, agent).prompt(**settings)

    def tool(
        self,
        *kb_ids: str,
        workflow: str | None = None,
        task: str | None = None,
        agent: str | None = None,
        **settings: Unpack[ToolSettings],
    ) -> BaseTool:
        """Return a tool that searches; short for `at(*kb_ids, …).tool(…)`."""
        return self._at(kb_ids, workflow, task, agent).tool(**settings)

    def tools(
        self,
        *kb_ids: str,
        workflow: str | None = None,
        task: str | None = None,
        agent: str | None = None,
        **settings: Unpack[ReadSettings],
    ) -> list[BaseTool]:
        """Return tools that search and read; short for `at(*kb_ids, …).tools(…)`."""
        return self._at(kb_ids, workflow, task, agent).tools(**settings)

    def middleware(
        self,
        *kb_ids: str,
        workflow: str | None = None,
        task: str | None = None,
        agent: str | None = None,
        model: str | BaseChatModel | None = None,
        **settings: Unpack[RetrievalSettings],
    ) -> KnowledgeMiddleware:
        """Return middleware for an agent; short for `at(*kb_ids, …).middleware(…)`."""
        return self._at(kb_ids, workflow, task, agent).middleware(model=model, **settings)

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
        """Answer a question; short for `at(*kb_ids, …).agenerate(question, …)`."""
        place = self._at(kb_ids, workflow, task, agent)
        return await place.agenerate(question, model=model, **request)

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
        """Stream an answer; short for `at(*kb_ids, …).stream(question, …)`."""
        return self._at(kb_ids, workflow, task, agent).stream(question, model=model, **request)

    def citations(self) -> CitationParser:
        """Return a Runnable to end a chain; short for `at(…).citations()`."""
        return self._at(()).citations()

    ingest = sync(aingest)
    plan = sync(aplan)
    query = sync(aquery)
    query_many = sync(aquery_many)
    documents = sync(adocuments)
    add_documents = sync(aadd_documents)
    delete_document = sync(adelete_document)
    stats = sync(astats)
    generate = sync(agenerate)
    astream = stream
