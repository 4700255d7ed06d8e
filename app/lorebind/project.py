"""`Project`, the main class: a loaded project and all its operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from lorebind.declaration_methods import DeclarationMethods
from lorebind.objects import with_objects
from lorebind.short_forms import ShortForms
from lorebind.workflow_methods import WorkflowMethods, WorkflowRuntime
from lorebind_bindings import ModelPool
from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
from lorebind_config.errors import UsageError
from lorebind_config.namespace import checked_tenant
from lorebind_config.reading.at_run_time import read_knowledge_base, with_knowledge_bases
from lorebind_config.reading.loading import build_project, load_project
from lorebind_knowledge.events import Events
from lorebind_knowledge.plumbing.bridge import sync
from lorebind_knowledge.service import KnowledgeService

if TYPE_CHECKING:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import MessageLikeRepresentation
    from langchain_core.vectorstores import VectorStore

    from lorebind.doctor import Finding
    from lorebind_bindings import Answer, AskedInRuns
    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_knowledge.collection import LorebindVectorStore
    from lorebind_knowledge.events import Extension
    from lorebind_knowledge.index.purging import OrphanedIndex


class Project(DeclarationMethods, ShortForms, WorkflowMethods):
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
        self._runtime = WorkflowRuntime()
        self._asked_in_runs: AskedInRuns = WeakKeyDictionary()

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
        declarations = with_objects(
            declarations or {},
            embedder=embedder,
            vector_store=vector_store,
            model=model,
            documents=documents,
        )
        loaded = build_project(declarations, root=Path(root), environ=environ)
        return cls(loaded, extensions=extensions)

    @property
    def name(self) -> str:
        return self.config.project.name

    @property
    def events(self) -> Events:
        """Events of the knowledge bases; extensions can subscribe while the project is in use."""
        return self.knowledge.events

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

    async def aask(
        self,
        question: str,
        *,
        top_k: int | None = None,
        history: Sequence[MessageLikeRepresentation] = (),
    ) -> Answer:
        """Answer a question with the project's default model.

        It searches the project's bindings, or all knowledge bases if there are none; short for
        `at().agenerate(…)`.

        Args:
            question: any text that is not blank.
            top_k: the maximum number of passages per knowledge base; None uses its settings.
            history: the previous messages, as for `agenerate`.

        Raises:
            UsageError: the project declares no knowledge base, or the question is blank.
            LorebindError: retrieval or the model failed.
        """
        return await self.agenerate(question, top_k=top_k, history=history)

    async def adoctor(self, *, deep: bool = False) -> list[Finding]:
        """Try each part of the project: embedders, databases, indexes and models.

        Nothing is written, and a part that fails does not stop the others.

        Args:
            deep: check every single vector, instead of their number and a sample.
        """
        from lorebind.doctor import examine  # imports what nothing else needs

        findings = examine(self.config, self.knowledge, self._models, deep=deep)
        return [finding async for finding in findings]

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

    async def apurge(self, *, dry_run: bool = True) -> list[OrphanedIndex]:
        """Remove the data of knowledge bases that the project no longer declares.

        This removes the vectors, texts, full-text entries and runs of all tenants. It keeps
        knowledge bases that tenants created over the API of a server, collections, other projects
        in the same database, and the embedding cache.

        Args:
            dry_run: only list the data that would be removed.

        Returns:
            The removed data, or with `dry_run` the data that would be removed.

        Raises:
            IngestRunningError: one of these knowledge bases is being ingested.
            StoreError: an outage; call the method again to remove the rest.
        """
        from lorebind.server.state.knowledge_bases import made_over_api  # the state of a server

        others = partial(made_over_api, self.config)
        remove = self.knowledge.undeclared if dry_run else self.knowledge.purge
        return await remove(others)

    def with_knowledge_bases(
        self, declared: Sequence[Mapping[str, Any] | KnowledgeBaseDeclaration]
    ) -> Self:
        """Return the same project with additional knowledge bases that no file declares.

        The view shares all open resources with the project, so closing one also closes the other.

        Args:
            declared: the YAML content of each knowledge base as a mapping, or a declaration, which
                is used without validation.

        Raises:
            ConfigurationError: a knowledge base is not valid, or its id is already used. The error
                lists all problems of the first such knowledge base; the `file` of a problem is a
                JSON pointer into the given mapping.
        """
        config = self.config
        for kb in declared:
            if not isinstance(kb, KnowledgeBaseDeclaration):
                kb = read_knowledge_base(config, kb)
            config = with_knowledge_bases(config, [kb])
        return self._over(config)

    def for_tenant(self, name: str) -> Self:
        """Return the same project, bound to a tenant for good.

        Everything that the view does belongs to this tenant, and so does everything that it makes:
        retrievers, tools, prompts, middleware, vector stores, streams and graphs. This holds in all
        threads and tasks, and inside of a `with tenant(...)` block of another tenant. A view costs
        next to nothing, so you can make one for each request. It shares all open resources with
        the project, so closing one also closes the other.

        Args:
            name: the name of the tenant.

        Raises:
            UsageError: the name is empty, or this is a view of another tenant.
        """
        bound = self.config.bound_tenant or checked_tenant(name)
        if name != bound:
            raise UsageError(
                f"this view is bound to tenant {bound!r}; call for_tenant on the project itself"
            )
        return self._over(replace(self.config, bound_tenant=name))

    def _over(self, config: LoadedProject) -> Self:
        """Return the project with another configuration; it shares all open resources."""
        view = copy(self)
        view.config = config
        view.knowledge = self.knowledge.over(config)
        return view

    async def aclose(self) -> None:
        """Close every store and file that the project opened."""
        await self._runtime.close()
        await self.knowledge.close()

    ask = sync(aask)
    doctor = sync(adoctor)
    purge = sync(apurge)
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
