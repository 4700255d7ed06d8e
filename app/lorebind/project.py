"""`Project`, the main class: a loaded project and all its operations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from lorebind.declaration_methods import DeclarationMethods
from lorebind.document_methods import DocumentMethods
from lorebind.evaluation_methods import EvaluationMethods
from lorebind.langchain_methods import LangChainMethods
from lorebind.objects import with_objects
from lorebind.view_methods import ViewMethods
from lorebind.workflow_methods import WorkflowMethods
from lorebind_bindings import (
    ModelPool,
    Request,
    Workflows,
    answer,
    bind,
    ingest_scope,
    override,
    override_settings,
    resolve,
)
from lorebind_config.errors import UsageError
from lorebind_config.reading.loading import build_project, load_project
from lorebind_knowledge.bridge import sync
from lorebind_knowledge.events import Events
from lorebind_knowledge.service import KnowledgeService

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Unpack

    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import MessageLikeRepresentation
    from langchain_core.vectorstores import VectorStore

    from lorebind.doctor import Finding
    from lorebind_bindings import Answer, ResolvedBinding, RetrievalSettings
    from lorebind_config.declarations import RetrievalDeclaration
    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_knowledge.collection.langchain_vector_store import LorebindVectorStore
    from lorebind_knowledge.events import Extension
    from lorebind_knowledge.ingest.report import IngestPlan, IngestReport
    from lorebind_knowledge.records import QueryResult
    from lorebind_knowledge.retrieval.langchain_vector_store import KnowledgeBaseVectorStore


class Project(
    DeclarationMethods,
    DocumentMethods,
    EvaluationMethods,
    LangChainMethods,
    ViewMethods,
    WorkflowMethods,
):
    """The knowledge, bindings and workflows that a `lorebind.yaml` declares.

    Every operation has a sync version, such as `query`, and an async version, such as `aquery`.
    Stores and models are opened on first use. As a context manager (`with` or `async with`), a
    project closes what it opened. A project may be shared between threads and asyncio tasks.
    """

    def __init__(self, loaded: LoadedProject, *, extensions: Sequence[Extension] = ()) -> None:
        """Create projects with `Project.load` or `Project.build`, not directly."""
        self.config = loaded
        self.knowledge = KnowledgeService(loaded, Events(extensions))
        self._models = ModelPool(loaded)
        self._workflows = Workflows(loaded, self.knowledge, self._models)
        self._asked_in_runs = WeakKeyDictionary()

    @classmethod
    def load(
        cls,
        path: str | Path = ".",
        *,
        environ: Mapping[str, str] | None = None,
        extensions: Sequence[Extension] = (),
    ) -> Self:
        """Load a project from its folder or its `lorebind.yaml`.

        Args:
            path: the folder, or the file itself. Unlike commands, it searches no folders above.
            environ: variables for `{{ .env.X }}` and `{{ .secrets.X }}`; None uses those of the
                process. Variables in the project's `.env` are added, but override none.
            extensions: subscribers to lifecycle events.

        Raises:
            ConfigurationError: the files have problems; the error lists all of them. A variable
                that is not set is a problem only of the parts that use it, when they are used.
        """
        return cls(load_project(path, environ=environ), extensions=extensions)

    @classmethod
    def build(
        cls,
        declarations: Mapping[str, Any] | None = None,
        *,
        embedder: Embeddings | None = None,
        vector_store: VectorStore | Mapping[str, Any] | None = None,
        model: BaseChatModel | None = None,
        documents: Sequence[Document] | None = None,
        root: str | Path = ".",
        environ: Mapping[str, str] | None = None,
        extensions: Sequence[Extension] = (),
    ) -> Self:
        """Build a project from Python objects: a mapping with the keys of `lorebind.yaml`.

        You can pass LangChain objects instead of declarations. Within declarations, an object may
        replace the `class` of an embedder, a vector database or a source, and a model's `model`.

        Args:
            declarations: the content that the file would have.
            embedder: the embedder `default`. Objects of one class with the same `model` and
                dimensions are assumed to return the same vectors.
            vector_store: the vector database `default`. It must be empty or filled by Lorebind, and
                nothing else may write to it. Pass a store that others fill as `existing(store)`; if
                no knowledge base is declared, it becomes the knowledge base `documents`.
            model: the chat model `default`.
            documents: the content of the knowledge base `documents`, which the project binds. A
                document is identified by its `source`, or else by its id.
            root: the folder that paths are relative to and must stay in.
            environ: as for `load`.
            extensions: as for `load`.

        Raises:
            ConfigurationError: the declarations have problems; the error lists all of them.
            UsageError: `documents` are not LangChain documents.
        """
        written = with_objects(
            declarations or {},
            embedder=embedder,
            vector_store=vector_store,
            model=model,
            documents=documents,
        )
        loaded = build_project(written, root=Path(root), environ=environ)
        return cls(loaded, extensions=extensions)

    @property
    def name(self) -> str:
        return self.config.project.name

    @property
    def events(self) -> Events:
        """Events of the knowledge bases; extensions can subscribe while the project is in use."""
        return self.knowledge.events

    async def aingest(
        self,
        kb_id: str,
        *,
        workflow: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        strategy: str = "upsert",
        only_failed: bool = False,
        allow_mass_delete: bool = False,
        wait: bool = False,
        plan: IngestPlan | None = None,
        run_id: str | None = None,
    ) -> IngestReport:
        """Update the index of a knowledge base to the current content of its sources.

        Only changed content is embedded. If a run is interrupted, the next run completes it.

        Args:
            kb_id: the id of the knowledge base.
            workflow: the workflow that declares the knowledge base, if a workflow does.
            inputs: the inputs of that workflow, for sources that use them.
            strategy: `upsert` changes the index document by document; `replace` builds a new index
                in the background and swaps it in at the end.
            only_failed: read only documents that failed or were interrupted; remove nothing.
            allow_mass_delete: allow the run to remove more than half of the documents.
            wait: wait for a running ingest of the knowledge base instead of raising an error.
            plan: a recent result of `plan` for this knowledge base. Documents that it has fetched
                are not fetched again, and unchanged ones are not split into chunks again.
            run_id: the id of the run in events and in the report; None creates one.

        Raises:
            NotFoundError: no such knowledge base.
            UsageError: the plan is for another knowledge base.
            IngestRunningError: another ingest of the knowledge base is running.
            IngestRefusedError: the run would remove too many documents.
            EmbedderError, StoreError: an outage; finished documents are stored.
        """
        return await self.knowledge.ingest(
            kb_id,
            workflow=workflow,
            given=self._given(workflow, inputs),
            strategy=strategy,
            only_failed=only_failed,
            allow_mass_delete=allow_mass_delete,
            wait=wait,
            plan=plan,
            run_id=run_id,
        )

    async def aplan(
        self,
        kb_id: str,
        *,
        workflow: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        strategy: str = "upsert",
    ) -> IngestPlan:
        """Return what an ingest with the same arguments would do now, without changing anything.

        With the strategy `replace`, the plan also applies to a reindex. It has a `cost` if the
        embedder declares its `price_per_million_tokens`.
        """
        given = self._given(workflow, inputs)
        return await self.knowledge.plan(kb_id, workflow=workflow, given=given, strategy=strategy)

    async def areindex(
        self,
        kb_id: str,
        *,
        workflow: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        wait: bool = False,
        plan: IngestPlan | None = None,
        run_id: str | None = None,
    ) -> IngestReport:
        """Rebuild the index of a knowledge base in the background, then swap it in.

        Use it to change the embedder or to repair a damaged index. Texts in the embedding cache are
        not embedded again. A search sees either the whole old index or the whole new one. If a run
        is interrupted, the next run completes it.

        Args:
            kb_id: the id of the knowledge base.
            workflow: the workflow that declares the knowledge base, if a workflow does.
            inputs: the inputs of that workflow, for sources that use them.
            wait: as for `aingest`.
            plan: as for `aingest`.
            run_id: as for `aingest`.

        Raises:
            LorebindError: as for `aingest`; the old index stays in use.
        """
        given = self._given(workflow, inputs)
        return await self.knowledge.reindex(
            kb_id, workflow=workflow, given=given, wait=wait, plan=plan, run_id=run_id
        )

    def _given(
        self, workflow: str | None, inputs: Mapping[str, Any] | None
    ) -> dict[str, Any] | None:
        """Return the values of `{{ .workflow.… }}` in the sources of a workflow."""
        if workflow is not None:
            return ingest_scope(self.config, workflow, inputs)
        if inputs:
            message = "inputs belong to a workflow; name the workflow too"
            raise UsageError(message, at=("inputs",))
        return None

    async def aquery(
        self,
        kb_id: str,
        question: str,
        *,
        workflow: str | None = None,
        **settings: Unpack[RetrievalSettings],
    ) -> QueryResult:
        """Return the best passages of a knowledge base for a question, best first.

        Args:
            kb_id: the id of the knowledge base.
            question: any text that is not blank.
            workflow: the workflow that declares the knowledge base, if a workflow does.
            settings: fields of `retrieval` to override, such as `top_k`. Those that are about
                prompts, such as `max_tokens`, do not change the result.

        Raises:
            NotFoundError: no such knowledge base.
            NotIngestedError: nothing has been ingested yet.
            UsageError: the question is blank, or a setting is unknown or invalid.
            IndexMismatchError: the index was built by another embedder.
            EmbedderError, StoreError: an outage, which never results in an empty answer.
        """
        chosen = self._retrieval(kb_id, workflow, settings)
        return await self.knowledge.query(kb_id, question, chosen, workflow=workflow)

    def _retrieval(
        self, kb_id: str, workflow: str | None, settings: RetrievalSettings
    ) -> RetrievalDeclaration:
        declared, _ = self.config.knowledge_base(kb_id, workflow)
        return override_settings(self.config.retrieval(declared), **settings)

    async def aquery_explained(
        self,
        kb_id: str,
        question: str,
        *,
        workflow: str | None = None,
        **settings: Unpack[RetrievalSettings],
    ) -> tuple[QueryResult, ResolvedBinding]:
        """Query as `aquery` does, and also return every setting with the location that set it.

        Args:
            kb_id: the id of the knowledge base.
            question: any text that is not blank.
            workflow: the workflow that declares the knowledge base, if a workflow does.
            settings: fields of `retrieval` to override, such as `top_k`.

        Raises:
            LorebindError: as for `aquery`.
        """
        binding = override(bind(self.config, kb_id, workflow), **settings)
        found = await self.knowledge.query(kb_id, question, binding.settings, workflow=workflow)
        return found, binding

    async def aquery_many(
        self,
        kb_ids: Sequence[str],
        question: str,
        *,
        workflow: str | None = None,
        **settings: Unpack[RetrievalSettings],
    ) -> QueryResult:
        """Return the best passages of several knowledge bases for a question, in one ranking.

        Args:
            kb_ids: the knowledge bases; those without any ingested documents are skipped.
            question: any text that is not blank.
            workflow: the workflow that declares the knowledge bases, if a workflow does.
            settings: fields of `retrieval` that override those of the first knowledge base.

        Raises:
            NotFoundError: no such knowledge base.
            NotIngestedError: nothing has been ingested into any of them.
            UsageError: none is named, their embedders differ, or as for `aquery`.
            EmbedderError, StoreError: an outage of any of them.
        """
        if not kb_ids:
            raise UsageError("name at least one knowledge base to search")
        chosen = self._retrieval(kb_ids[0], workflow, settings)
        return await self.knowledge.query_several(kb_ids, question, chosen, workflow=workflow)

    async def aask(
        self,
        question: str,
        *,
        top_k: int | None = None,
        history: Sequence[MessageLikeRepresentation] = (),
    ) -> Answer:
        """Answer a question with the project's default model.

        It searches the project-level bindings, or all knowledge bases if there are none.

        Args:
            question: any text that is not blank.
            top_k: the maximum number of passages per knowledge base; None uses its settings.
            history: the previous messages, as for `agenerate`.

        Raises:
            UsageError: the project declares no knowledge base, or the question is blank.
            LorebindError: retrieval or the model failed.
        """
        bindings = resolve(self.config) or [
            bind(self.config, kb.id) for kb in self.config.project.knowledge_bases
        ]
        if not bindings:
            raise UsageError("the project declares no knowledge base to search")
        bindings = [override(binding, top_k=top_k) for binding in bindings]
        request = Request(question, history=history)
        return await answer(
            self.knowledge, self._models.condensing(bindings), *self._models.get(), request
        )

    async def adoctor(self, *, deep: bool = False) -> list[Finding]:
        """Try each part of the project: embedders, databases, indexes and models.

        Nothing is written, and a part that fails does not stop the others.

        Args:
            deep: check every single vector, instead of their number and a sample.
        """
        from lorebind.doctor import examine

        examined = examine(self.config, self.knowledge, self._models, deep=deep)
        return [found async for found in examined]

    def vector_store(self, kb_id: str, *, workflow: str | None = None) -> KnowledgeBaseVectorStore:
        """Return a knowledge base as a read-only LangChain `VectorStore`.

        Args:
            kb_id: the id of the knowledge base.
            workflow: the workflow that declares the knowledge base, if a workflow does.

        Raises:
            NotFoundError: no such knowledge base.
        """
        return self.knowledge.vector_store(kb_id, workflow=workflow)

    def collection(
        self, name: str, *, embedder: str | None = None, vector_db: str | None = None
    ) -> LorebindVectorStore:
        """Return a LangChain `VectorStore` for documents that you add yourself.

        A collection is not a knowledge base: no ingest finds or deletes its documents, and no
        binding searches it. All its vectors are from one embedder; another embedder is refused.

        Args:
            name: the name of the collection, which is created on first use.
            embedder: the id of a declared embedder; None uses the project's default.
            vector_db: the id of a declared vector database; None uses the project's default.

        Raises:
            NotFoundError: no such embedder or vector database.
        """
        return self.knowledge.collection(name, embedder=embedder, vector_db=vector_db)

    async def aclose(self) -> None:
        """Close every store and file that the project opened."""
        await self._workflows.close()
        await self.knowledge.close()

    ingest = sync(aingest)
    plan = sync(aplan)
    reindex = sync(areindex)
    query = sync(aquery)
    query_explained = sync(aquery_explained)
    query_many = sync(aquery_many)
    ask = sync(aask)
    doctor = sync(adoctor)
    close = sync(aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"Project({self.name!r}, root={str(self.config.root)!r})"
