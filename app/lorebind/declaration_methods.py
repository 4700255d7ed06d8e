"""The declarations in a project's files: its knowledge bases, workflows and bindings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from lorebind_knowledge.plumbing.bridge import sync

if TYPE_CHECKING:
    from lorebind_bindings.resolver import EffectiveBindings
    from lorebind_bindings.workflow.outline import WorkflowOutline
    from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
    from lorebind_config.reading.loaded import LoadedProject


@dataclass(frozen=True, slots=True)
class KnowledgeBaseInfo:
    """A knowledge base as the project's files declare it."""

    id: str
    workflow: str | None
    """The workflow that declares it; None if the project does."""
    description: str
    vector_db: str
    """The id of the vector database that holds its index."""
    filled_by_others: bool
    """Whether others fill it, so that Lorebind only searches it."""
    knowledge_base: dict[str, Any]
    """The declared settings, with the keys of the YAML."""
    with_defaults: dict[str, Any]
    """The same settings, together with the default of every omitted one."""
    needs_inputs: list[str] = field(default_factory=list)
    """The inputs without a default that its sources use; an ingest needs them."""


class DeclarationMethods:
    """The methods of `Project` that read its files only: they open no database and no model."""

    config: LoadedProject

    async def aknowledge_bases(self) -> list[KnowledgeBaseInfo]:
        """Return all knowledge bases: those of the project, then those of its workflows."""
        every = self.config.every_knowledge_base()
        return [described(self.config, kb, workflow) for kb, workflow in every]

    async def aworkflows(self) -> list[dict[str, Any]]:
        """List the workflows: the `id`, `description`, `inputs` by name, and `tasks` of each."""
        from lorebind_bindings.workflow.outline import summary

        return [summary(workflow) for workflow in self.config.workflows.values()]

    async def aworkflow_outline(self, workflow: str) -> WorkflowOutline:
        """Return the graph of a workflow: its tasks, and the tasks that may follow each of them.

        Raises:
            NotFoundError: no such workflow.
        """
        from lorebind_bindings.workflow.outline import outline

        return outline(self.config, workflow)

    async def aexport(
        self, kb_id: str | None = None, *, workflow: str | None = None
    ) -> dict[str, Any]:
        """Return embedders, vector databases and knowledge bases as data, templates not filled in.

        Args:
            kb_id: export only this knowledge base and the resources it uses; None exports all.
            workflow: the workflow that can use it; without `kb_id`, export all that the workflow
                declares.

        Raises:
            NotFoundError: no such knowledge base or workflow.
        """
        from lorebind_config.editing.resources import export_resources

        return export_resources(self.config, kb_id, workflow)

    async def aexplain(
        self, *, workflow: str | None = None, task: str | None = None, agent: str | None = None
    ) -> EffectiveBindings:
        """Return the bindings in effect: every setting with the scope, file and line that set it.

        Without arguments, these are the bindings of the project itself. `unbound_by` of the list is
        the location of the `knowledge: []` that removes those of outer scopes; None if nowhere.

        Args:
            workflow: the id of a workflow.
            task: the id of one of its tasks; requires `workflow`.
            agent: the id of an agent.

        Raises:
            NotFoundError: no such workflow, task or agent.
            UsageError: a task without its workflow.
        """
        from lorebind_bindings.resolver import BindingScope, EffectiveBindings

        scope = BindingScope(self.config, (), workflow, task, agent)
        return EffectiveBindings(scope.resolve(), scope.unbound_by())

    knowledge_bases = sync(aknowledge_bases)
    workflows = sync(aworkflows)
    workflow_outline = sync(aworkflow_outline)
    export = sync(aexport)
    explain = sync(aexplain)


class Declared(DeclarationMethods):
    """A project of which only the declarations are needed."""

    def __init__(self, loaded: LoadedProject) -> None:
        self.config = loaded

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def described(
    loaded: LoadedProject, declared: KnowledgeBaseDeclaration, workflow: str | None
) -> KnowledgeBaseInfo:
    """Describe a declared knowledge base for callers.

    Args:
        loaded: the project.
        declared: the knowledge base.
        workflow: the workflow that declares it; None if the project does.
    """
    from lorebind_bindings.inputs import needed_inputs

    return KnowledgeBaseInfo(
        declared.id,
        workflow,
        declared.description,
        loaded.vector_db(declared.vector_db).id,
        loaded.is_existing(declared),
        declared.written(),
        declared.model_dump(mode="json", by_alias=True),
        [] if workflow is None else needed_inputs(loaded.workflow(workflow), declared),
    )
