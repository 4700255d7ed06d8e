"""What the files of a project declare: its knowledge bases, workflows and bindings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from lorebind_knowledge.bridge import sync
from lorebind_knowledge.namespace import PROJECT_SCOPE

if TYPE_CHECKING:
    from lorebind_bindings import ResolvedBinding
    from lorebind_bindings.workflow.outline import WorkflowOutline
    from lorebind_knowledge.configuration import LoadedProject
    from lorebind_knowledge.declarations import KnowledgeBaseDeclaration


@dataclass(frozen=True, slots=True)
class KnowledgeBaseInfo:
    """A knowledge base as it is declared."""

    id: str
    workflow: str | None
    """The workflow that declares it; None is the project."""
    description: str
    vector_db: str
    """The id of the vector database that holds its index."""
    filled_by_others: bool
    """Whether it can be searched and nothing else."""
    knowledge_base: dict[str, Any]
    """What is declared, with the keys of the YAML."""
    with_defaults: dict[str, Any]
    """The same with every default."""


class DeclarationMethods:
    """The methods of a project that need nothing but its files: no part of it is made for them."""

    config: LoadedProject

    async def aknowledge_bases(self) -> list[KnowledgeBaseInfo]:
        """All knowledge bases that are declared: the project's, then those of its workflows."""
        every = self.config.every_knowledge_base()
        return [described(self.config, kb, workflow) for kb, workflow in every]

    async def aknowledge_base(
        self, kb_id: str, *, workflow: str | None = None
    ) -> KnowledgeBaseInfo:
        """One of them.

        Args:
            kb_id: its id.
            workflow: the workflow that sees it, for one that a workflow declares.

        Raises:
            NotFoundError: no such knowledge base or workflow.
        """
        declared, scope = self.config.knowledge_base(kb_id, workflow)
        return described(self.config, declared, None if scope == PROJECT_SCOPE else workflow)

    async def aworkflows(self) -> list[dict[str, Any]]:
        """List the workflows: the `id`, `description`, `inputs` by name, and `tasks` of each."""
        from lorebind_bindings.workflow.outline import summary

        return [summary(one) for one in self.config.workflows.values()]

    async def aworkflow_outline(self, workflow: str) -> WorkflowOutline:
        """Return the graph of a workflow: its tasks, and the tasks that may follow each of them.

        Raises:
            NotFoundError: no such workflow.
        """
        from lorebind_bindings.workflow.outline import outline

        return outline(self.config, workflow)

    async def aworkflow_inputs(self, workflow: str) -> dict[str, dict[str, Any]]:
        """The inputs that a workflow takes, by name: the `type` of each, and if it is `required`.

        Raises:
            NotFoundError: no such workflow.
        """
        from lorebind_bindings.workflow.outline import summary

        inputs: dict[str, dict[str, Any]] = summary(self.config.workflow(workflow))["inputs"]
        return inputs

    async def aexport(
        self, kb_id: str | None = None, *, workflow: str | None = None
    ) -> dict[str, Any]:
        """Embedders, vector databases and knowledge bases as data, with templates as written.

        Args:
            kb_id: only this knowledge base and what it names; None means all.
            workflow: the workflow that sees it; without an id, all that the workflow declares.

        Raises:
            NotFoundError: no such knowledge base or workflow.
        """
        from lorebind_knowledge.configuration import export_resources

        return export_resources(self.config, kb_id, workflow)

    async def aexplain(
        self, *, workflow: str | None = None, task: str | None = None, agent: str | None = None
    ) -> list[ResolvedBinding]:
        """What is bound at a place: every setting, and the scope, file and line that set it.

        Args:
            workflow, task, agent: the place; none of them means the project itself.

        Raises:
            NotFoundError: no such workflow, task or agent.
            UsageError: a task without its workflow.
        """
        from lorebind_bindings import resolve

        return resolve(self.config, workflow=workflow, task=task, agent=agent)

    knowledge_bases = sync(aknowledge_bases)
    knowledge_base = sync(aknowledge_base)
    workflows = sync(aworkflows)
    workflow_outline = sync(aworkflow_outline)
    workflow_inputs = sync(aworkflow_inputs)
    export = sync(aexport)
    explain = sync(aexplain)


class Declared(DeclarationMethods):
    """Those methods for a project that nothing else is wanted of."""

    def __init__(self, loaded: LoadedProject) -> None:
        self.config = loaded

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def described(
    loaded: LoadedProject, declared: KnowledgeBaseDeclaration, workflow: str | None
) -> KnowledgeBaseInfo:
    """A declaration as callers see it.

    Args:
        loaded: the project.
        declared: the knowledge base.
        workflow: the workflow that declares it; None is the project.
    """
    return KnowledgeBaseInfo(
        declared.id,
        workflow,
        declared.description,
        loaded.vector_db(declared.vector_db).id,
        loaded.is_existing(declared),
        declared.written(),
        declared.model_dump(mode="json", by_alias=True),
    )
