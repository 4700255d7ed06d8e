"""`Project`: a loaded project with everything that can be done with it."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from lorebind.declaration_methods import DeclarationMethods
from lorebind.document_methods import DocumentMethods
from lorebind.evaluation_methods import EvaluationMethods
from lorebind.langchain_methods import Faces
from lorebind.objects import with_objects
from lorebind.workflow_methods import WorkflowMethods
from lorebind_bindings import (
    ModelPool,
    Request,
    Workflows,
    answer,
    bind,
    ingest_scope,
    override,
    resolve,
)
from lorebind_knowledge.bridge import sync
from lorebind_knowledge.configuration import build_project, load_project
from lorebind_knowledge.configuration.at_run_time import read_knowledge_base, with_knowledge_bases
from lorebind_knowledge.declarations.knowledge_bases import KnowledgeBaseDeclaration
from lorebind_knowledge.errors import UsageError
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
    from lorebind_knowledge.collection.langchain_vector_store import LorebindVectorStore
    from lorebind_knowledge.configuration import LoadedProject
    from lorebind_knowledge.events import Extension
    from lorebind_knowledge.ingest.report import IngestPlan, IngestReport
    from lorebind_knowledge.records import QueryResult
    from lorebind_knowledge.retrieval.langchain_vector_store import KnowledgeBaseVectorStore


class Project(DeclarationMethods, DocumentMethods, EvaluationMethods, WorkflowMethods, Faces):
    """The knowledge, bindings and workflows that a `lorebind.yaml` declares.

    Every operation has two faces: `query` blocks, `aquery` is awaited. Nothing is opened before it
    is needed; used as a context manager (`with` or `async with`), a project closes what it opened.
    It may be shared among threads and tasks.
    """

    def __init__(self, loaded: LoadedProject, *, extensions: Sequence[Extension] = ()) -> None:
        """Use `Project.load` or `Project.build`."""
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
            path: the folder, or the file itself.
            environ: variables for `{{ .env.X }}` and `{{ .secrets.X }}`; None means the process's
                own. Those in the project's `.env` are added, and do not override.
            extensions: subscribers to lifecycle events.

        Raises:
            ConfigurationError: with every problem of every file.
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
        """The same from Python objects: a mapping with the keys of `lorebind.yaml`.

        Objects of LangChain are as good as declarations. Within those, one may stand wherever the
        `class` of an embedder, a vector database or a source is named, and as a model's `model`.

        Args:
            declarations: what the file would say.
            embedder: the embedder `default`. Of two objects of a class that have the same `model`
                and dimensions, the vectors are taken to be the same.
            vector_store: the vector database `default`. It has to be empty or filled by Lorebind;
                leave it to Lorebind from now on. One that others fill is given as
                `existing(store)`: where no knowledge base is declared, it is `documents`.
            model: the chat model `default`.
            documents: the knowledge base `documents`, which the project binds. A document is known
                by its `source`, or else its id.
            root: the folder that paths are relative to and must stay in.
            environ, extensions: as for `load`.

        Raises:
            ConfigurationError: with every problem.
            UsageError: `documents` are no documents.
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
        """What happens to its knowledge bases, for extensions that subscribe while it is used."""
        return self.knowledge.events

    def with_knowledge_bases(
        self, declared: Sequence[Mapping[str, Any] | KnowledgeBaseDeclaration]
    ) -> Self:
        """The same project with more knowledge bases, which no file declares.

        Both share everything that was opened, and closing one closes it for the other.

        Args:
            declared: what the YAML of each would say. A declaration is taken as it is.

        Raises:
            ConfigurationError: with every problem of the first that is not valid, or that has the
                id of another. The `file` of a problem is a JSON pointer into what was given.
        """
        config = self.config
        for one in declared:
            if not isinstance(one, KnowledgeBaseDeclaration):
                one = read_knowledge_base(config, one)
            config = with_knowledge_bases(config, [one])
        view = copy(self)
        view.config = config
        view.knowledge = self.knowledge.over(config)
        return view

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
        """Bring a knowledge base's index to what its sources hold now.

        Only what changed is embedded. A run that is cut off anywhere is completed by the next.

        Args:
            kb_id: the knowledge base.
            workflow: the workflow that declares it, where one does.
            inputs: that workflow's inputs, for sources that name them.
            strategy: `upsert` changes the index document by document; `replace` builds a new one
                beside it and switches at the end.
            only_failed: read only what failed or was interrupted before; nothing is removed.
            allow_mass_delete: let the run remove more than half of the documents.
            wait: let another ingest of the knowledge base end first, instead of refusing.
            plan: what `plan` gave for this knowledge base a moment ago. What it has fetched is not
                fetched again, and what it has cut is not cut again unless it changed.
            run_id: by which its events and its report are told; None makes one up.

        Raises:
            NotFoundError: no such knowledge base.
            UsageError: the plan is of another knowledge base.
            IngestRunningError: another ingest of it is under way.
            IngestRefusedError: too much would be removed.
            EmbedderError, StoreError: an outage; what was finished stays.
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
        """What an ingest would do now, with the same arguments. Touches nothing.

        With the strategy `replace` it is also what a reindex would do. `cost` is told where the
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
        """Build a knowledge base's index anew from everything, beside the one in use, and switch.

        The way to another embedder, and out of an index that was damaged. Texts whose vectors are
        in the embedding cache are not embedded again. Searches see the old index, then the new one,
        and nothing in between; one that is cut off is completed by the next.

        Args:
            kb_id, workflow, inputs, wait, plan, run_id: as for `aingest`.

        Raises:
            LorebindError: as for `aingest`; the old index goes on to serve.
        """
        given = self._given(workflow, inputs)
        return await self.knowledge.reindex(
            kb_id, workflow=workflow, given=given, wait=wait, plan=plan, run_id=run_id
        )

    def _given(
        self, workflow: str | None, inputs: Mapping[str, Any] | None
    ) -> dict[str, Any] | None:
        """What `{{ .workflow.… }}` stands for in the sources of a workflow."""
        if workflow is not None:
            return ingest_scope(self.config, workflow, inputs)
        if inputs:
            raise UsageError("inputs belong to a workflow; name the workflow too")
        return None

    async def aquery(
        self,
        kb_id: str,
        question: str,
        *,
        workflow: str | None = None,
        top_k: int | None = None,
        min_score: float | None = None,
        strategy: str | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> QueryResult:
        """The passages of a knowledge base that are nearest to a question, best first.

        Args:
            kb_id: the knowledge base.
            question: any text that is not blank.
            workflow: the workflow that declares it, where one does.
            top_k, min_score, strategy, filters: override the knowledge base's own `retrieval`;
                None leaves it.

        Raises:
            NotFoundError: no such knowledge base.
            NotIngestedError: nothing has been ingested yet.
            UsageError: a blank question, or a setting out of its limits.
            IndexMismatchError: the index was built by another embedder.
            EmbedderError, StoreError: an outage; it is never an empty answer.
        """
        found, _ = await self.aquery_explained(
            kb_id,
            question,
            workflow=workflow,
            top_k=top_k,
            min_score=min_score,
            strategy=strategy,
            filters=filters,
        )
        return found

    async def aquery_explained(
        self, kb_id: str, question: str, *, workflow: str | None = None, **settings: Any
    ) -> tuple[QueryResult, ResolvedBinding]:
        """The same, with every setting that was in effect and what set it.

        Args:
            kb_id, question, workflow, settings: as for `aquery`.

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
        """The passages of several knowledge bases that answer a question best, in one ranking.

        Args:
            kb_ids: the knowledge bases; those into which nothing was ingested are skipped.
            question: any text that is not blank.
            workflow: the workflow that declares them, where one does.
            settings: fields of `retrieval` that are to differ from those of the first.

        Raises:
            NotFoundError: no such knowledge base.
            NotIngestedError: nothing has been ingested into any of them.
            UsageError: none is named, their embedders differ, or what `aquery` refuses.
            EmbedderError, StoreError: an outage of any of them.
        """
        if not kb_ids:
            raise UsageError("name at least one knowledge base to search")
        binding = override(bind(self.config, kb_ids[0], workflow), **settings)
        return await self.knowledge.query_several(
            kb_ids, question, binding.settings, workflow=workflow
        )

    async def aask(
        self,
        question: str,
        *,
        top_k: int | None = None,
        history: Sequence[MessageLikeRepresentation] = (),
    ) -> Answer:
        """Answer a question with the project's default model and everything in sight.

        What is searched: the project-level bindings, or all knowledge bases where there are none.

        Args:
            question: any text that is not blank.
            top_k: how many passages of each knowledge base; None leaves it to its settings.
            history: what was said before, as for `agenerate`.

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
        """Each part of the project tried for real: embedders, databases, indexes, models.

        Nothing is written, and no part that fails stops the others.

        Args:
            deep: look for every single vector, instead of their number and some of them.
        """
        from lorebind.doctor import examine

        examined = examine(self.config, self.knowledge, self._models, deep=deep)
        return [found async for found in examined]

    def vector_store(self, kb_id: str, *, workflow: str | None = None) -> KnowledgeBaseVectorStore:
        """A knowledge base as a LangChain `VectorStore`, to be searched and not written.

        Args:
            kb_id: the knowledge base.
            workflow: the workflow that declares it, where one does.

        Raises:
            NotFoundError: no such knowledge base.
        """
        return self.knowledge.vector_store(kb_id, workflow=workflow)

    def collection(
        self, name: str, *, embedder: str | None = None, vector_db: str | None = None
    ) -> LorebindVectorStore:
        """Documents that are added by hand, as a LangChain `VectorStore`.

        A collection is not a knowledge base: no ingest finds or deletes its documents, and no
        binding searches it. Its vectors are all of one embedder; another one is refused.

        Args:
            name: what it is called. It is made when it is first used.
            embedder, vector_db: declared ones; None means the project's defaults.

        Raises:
            NotFoundError: no such embedder or vector database.
        """
        return self.knowledge.collection(name, embedder=embedder, vector_db=vector_db)

    async def aclose(self) -> None:
        """Close every store and file that was opened."""
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
