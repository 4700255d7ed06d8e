"""A project whose files were read and validated."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from lorebind_config.declarations.agents import AgentDeclaration
from lorebind_config.declarations.embedders import (
    NONE,
    OFF,
    EmbedderDeclaration,
    SparseEmbedderDeclaration,
)
from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
from lorebind_config.declarations.models import ModelDeclaration
from lorebind_config.declarations.objects import LiveObject
from lorebind_config.declarations.project import ProjectDeclaration, built_in, default_of
from lorebind_config.declarations.retrieval import RetrievalDeclaration, WeakLevels
from lorebind_config.declarations.tasks import TaskBase
from lorebind_config.declarations.vector_dbs import VectorDBDeclaration
from lorebind_config.declarations.workflows import CheckpointerDeclaration, WorkflowDeclaration
from lorebind_config.errors import NotFoundError, Problem, TenantRequiredError, did_you_mean
from lorebind_config.namespace import DEFAULT_TENANT, PROJECT_SCOPE, Namespace, digest, named_tenant
from lorebind_config.project_files import STATE_FILE, THREADS_FILE
from lorebind_config.templates import Environment

T = TypeVar("T", bound=Any)

_SERVING = ("server", "mcp")
"""The sections of a project file that concern servers alone."""


@dataclass(frozen=True)
class LoadedProject:
    """All declarations of a project, and the environment that its templates read.

    Every method that takes an id raises `NotFoundError` if it is unknown, with the nearest and all
    known ids. An id of None stands for the default: the declaration with the id `default`, or else
    the first one.
    """

    root: Path
    """Absolute path of the project folder."""
    file: Path | None
    """Path of the project file; None if the project was built from Python objects."""
    project: ProjectDeclaration
    workflows: dict[str, WorkflowDeclaration]
    """The workflows by id, from the project file and from further files."""
    agents: dict[str, AgentDeclaration]
    """The agents that all workflows can use, by id."""
    environment: Environment
    unset: tuple[Problem, ...] = ()
    """The templates that use a variable that is not set."""
    bound_tenant: str | None = None
    """The tenant of all calls, whatever their context says; None asks the context of each call."""

    @property
    def tenancy_required(self) -> bool:
        """Whether each call must name its tenant."""
        return self.project.tenancy == "required"

    @property
    def tenant(self) -> str:
        """The tenant of the call that asks.

        Raises:
            TenantRequiredError: the project requires a name, and the call has none.
        """
        name = self.bound_tenant or named_tenant()
        if name is None and self.tenancy_required:
            raise TenantRequiredError(
                f"project {self.project.name!r} has `tenancy: required`, and this call names no "
                "tenant; use project.for_tenant(NAME), or `with tenant(NAME):` in one coroutine or "
                "thread; on the command line --tenant NAME, over HTTP the header X-Tenant-ID"
            )
        return name or DEFAULT_TENANT

    def namespace(self, scope: str, name: str) -> Namespace:
        """Return the namespace of a knowledge base or collection, for the tenant of this call."""
        return Namespace(self.tenant, self.project.name, scope, name, self.tenancy_required)

    def embedder(self, embedder_id: str | None = None) -> EmbedderDeclaration:
        """Return an embedder; if none is declared, the default is `local`."""
        if embedder_id == NONE and NONE not in self._embedders:
            none: EmbedderDeclaration = built_in("embedders", NONE)
            return none
        return _pick(self._embedders, embedder_id, "embedder")

    def sparse_embedder(self, kb: KnowledgeBaseDeclaration) -> SparseEmbedderDeclaration | None:
        """Return the sparse embedder of a knowledge base; None if it has none."""
        if self.is_existing(kb):
            return None
        name = self.embedder(kb.embedder).sparse_default if kb.sparse is None else kb.sparse
        return None if name == OFF else _pick(self._sparse_embedders, name, "sparse embedder")

    def used_sparse_embedders(self) -> list[SparseEmbedderDeclaration]:
        """Return the declared sparse embedders, and the built-in one if it is used."""
        used = [self.sparse_embedder(kb) for kb, _ in self.every_knowledge_base()]
        return [
            item
            for item in self._sparse_embedders.values()
            if item in used or item in self.project.sparse_embedders
        ]

    def vector_db(self, db_id: str | None = None) -> VectorDBDeclaration:
        """Return a vector database; if none is declared, the default is `sqlite`."""
        return _pick(self._vector_dbs, db_id, "vector database")

    def model(self, model_id: str | None = None) -> ModelDeclaration:
        """Return a chat model; if none is declared, the default is the extractive `default`."""
        return _pick(_by_id(self.project.models_or_default), model_id, "model")

    def knowledge_base(
        self, kb_id: str, workflow: str | None = None
    ) -> tuple[KnowledgeBaseDeclaration, str]:
        """Return a knowledge base and its scope, `project` or `workflow/<id>`.

        A knowledge base of the workflow takes precedence over one of the project with the same id.
        """
        if workflow is not None:
            self.workflow(workflow)  # raises if there is none
            if kb := self._knowledge_bases[workflow].get(kb_id):
                return kb, f"workflow/{workflow}"
        if kb := self._knowledge_bases[None].get(kb_id):
            return kb, PROJECT_SCOPE
        visible = dict.fromkeys([*self._knowledge_bases[None], *self._knowledge_bases[workflow]])
        raise self.no_knowledge_base(kb_id, visible)

    def no_knowledge_base(self, kb_id: str, ids: Collection[str]) -> NotFoundError:
        """Return the error for a knowledge base that is not one of the known ids."""
        for kb, workflow in self.every_knowledge_base():
            if kb.id == kb_id and workflow is not None:
                return NotFoundError(
                    f"knowledge base {kb_id!r} belongs to workflow {workflow!r}; name the "
                    f"workflow: --workflow {workflow}, or workflow={workflow!r} in Python"
                )
        return NotFoundError(f"there is no knowledge base {kb_id!r}; {did_you_mean(kb_id, ids)}")

    def is_existing(self, kb: KnowledgeBaseDeclaration) -> bool:
        """Check whether another program fills a knowledge base."""
        return self.vector_db(kb.vector_db).is_existing

    def retrieval(self, kb: KnowledgeBaseDeclaration) -> RetrievalDeclaration:
        """Return the settings of a knowledge base for searches, with its default strategy."""
        if "strategy" in kb.retrieval.model_fields_set or not self.is_existing(kb):
            return kb.retrieval
        return kb.retrieval.model_copy(update={"strategy": self.default_strategy(kb)})

    def default_strategy(self, kb: KnowledgeBaseDeclaration) -> str:
        """Return the default search strategy of a knowledge base."""
        default: str = type(kb.retrieval).model_fields["strategy"].default
        return "similarity" if self.is_existing(kb) else default

    def weak_levels(self, kb: KnowledgeBaseDeclaration) -> WeakLevels:
        """Return the relevances of the best passage below which a match is weak.

        They are that of the knowledge base, or else for cosines that of its embedder. The embedder
        of an existing vector store is unknown if the store was passed as an object. If a factory
        creates the store, its embedder is known only if the knowledge base names one.
        """
        if "weak_below" in kb.model_fields_set:
            return WeakLevels(kb.weak_below, kb.weak_below)
        maker = getattr(self.vector_db(kb.vector_db), "class_path", None)
        if self.is_existing(kb) and (
            isinstance(maker, LiveObject) or (maker is None and kb.embedder is None)
        ):
            return WeakLevels()
        return WeakLevels(self.embedder(kb.embedder).weak_below)

    def every_knowledge_base(self) -> list[tuple[KnowledgeBaseDeclaration, str | None]]:
        """Return all knowledge bases with the workflow that declares each; None for the project."""
        every: list[tuple[KnowledgeBaseDeclaration, str | None]] = [
            (kb, None) for kb in self.project.knowledge_bases
        ]
        for workflow in self.workflows.values():
            every += [(kb, workflow.id) for kb in workflow.knowledge_bases]
        return every

    def workflow(self, workflow_id: str) -> WorkflowDeclaration:
        """Return a declared workflow; raise `NotFoundError` if there is none with this id."""
        return _pick(self.workflows, workflow_id, "workflow")

    def checkpointer(self, workflow: WorkflowDeclaration) -> CheckpointerDeclaration:
        """Return the storage of a workflow's threads: its own, or else the project's."""
        return workflow.checkpointer or self.project.checkpointer

    def beside_threads(self, workflow: WorkflowDeclaration) -> VectorDBDeclaration | None:
        """Return the vector database beside whose catalog a workflow's threads are by default.

        None if they are where `checkpointer` says, or in a file.
        """
        return None if self.declares_threads(workflow) else self._instead_of(THREADS_FILE)

    def declares_threads(self, workflow: WorkflowDeclaration) -> bool:
        """Whether a `checkpointer` says where the threads of a workflow are."""
        by_project = "checkpointer" in self.project.model_fields_set
        return by_project or workflow.checkpointer is not None

    @property
    def beside_state(self) -> VectorDBDeclaration | None:
        """The same for the state of a server."""
        return None if self.project.server.state else self._instead_of(STATE_FILE)

    def agent(self, agent_id: str, workflow: str | None = None) -> AgentDeclaration:
        """Return an agent; one of the workflow takes precedence over the project's."""
        agents = [] if workflow is None else self.workflow(workflow).agents
        return _pick(_by_id([*self.agents.values(), *agents]), agent_id, "agent")

    def task(self, task_id: str, workflow: str) -> TaskBase:
        """Return a task of a workflow, also one nested in another task."""
        tasks = _by_id(self.workflow(workflow).every_task())
        return _pick(tasks, task_id, f"task of workflow {workflow!r}")

    @cached_property
    def digest(self) -> str:
        """The digest of the declarations in the files, with unfilled templates.

        The settings of servers are no part of it.
        """
        project = {
            key: value for key, value in self.project.written().items() if key not in _SERVING
        }
        parts = [
            project,
            *(part.written() for part in (*self.workflows.values(), *self.agents.values())),
        ]
        return digest(*(json.dumps(part, sort_keys=True) for part in parts))

    def _instead_of(self, file: str) -> VectorDBDeclaration | None:
        """Return the default vector database if its PostgreSQL is used instead of this file."""
        default = self.vector_db()
        is_there = os.path.lexists(self.root / file)
        return default if default.is_shared and not is_there else None

    # Every search looks up several declarations, so they are arranged only once.

    @cached_property
    def _embedders(self) -> Mapping[str, EmbedderDeclaration]:
        return _by_id(self.project.embedders_or_default)

    @cached_property
    def _sparse_embedders(self) -> Mapping[str, SparseEmbedderDeclaration]:
        return _by_id(self.project.sparse_embedders_with_local)

    @cached_property
    def _vector_dbs(self) -> Mapping[str, VectorDBDeclaration]:
        return _by_id(self.project.vector_dbs_or_default)

    @cached_property
    def _knowledge_bases(self) -> Mapping[str | None, Mapping[str, KnowledgeBaseDeclaration]]:
        """The knowledge bases that each workflow declares, and under None those of the project."""
        declared: dict[str | None, Mapping[str, KnowledgeBaseDeclaration]] = {
            name: _by_id(workflow.knowledge_bases) for name, workflow in self.workflows.items()
        }
        return declared | {None: _by_id(self.project.knowledge_bases)}


def _by_id(items: Iterable[T]) -> dict[str, T]:
    """Arrange declarations by id; the last one of an id wins."""
    return {item.id: item for item in items}


def _pick(by_id: Mapping[str, T], item_id: str | None, what: str) -> T:
    if item_id is None:
        return default_of(list(by_id.values()))
    if item_id not in by_id:
        raise NotFoundError(f"there is no {what} {item_id!r}; {did_you_mean(item_id, by_id)}")
    return by_id[item_id]
