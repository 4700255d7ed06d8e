"""A project whose files were read and found to be valid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from lorebind_knowledge.configuration import defaults
from lorebind_knowledge.configuration.passage_templates import read_passage_template
from lorebind_knowledge.declarations.live import LiveObject
from lorebind_knowledge.errors import NotFoundError, did_you_mean
from lorebind_knowledge.namespace import PROJECT_SCOPE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lorebind_knowledge.configuration.environment import Environment
    from lorebind_knowledge.declarations.agents import AgentDeclaration
    from lorebind_knowledge.declarations.embedders import EmbedderDeclaration
    from lorebind_knowledge.declarations.knowledge_bases import KnowledgeBaseDeclaration
    from lorebind_knowledge.declarations.models import ModelDeclaration
    from lorebind_knowledge.declarations.project import ProjectDeclaration
    from lorebind_knowledge.declarations.vector_dbs import VectorDBDeclaration
    from lorebind_knowledge.declarations.workflows import TaskBase, WorkflowDeclaration
    from lorebind_knowledge.errors import Problem


class _Named(Protocol):
    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=_Named)


@dataclass(frozen=True)
class LoadedProject:
    """All declarations of a project, and the environment that its templates read.

    Every look-up raises NotFoundError, with the nearest and all known ids, for one that is not
    there. An id of None stands for the default: what is called `default`, else what is declared
    first.
    """

    root: Path
    """The project folder."""
    file: Path | None
    """The project file; None when the project was built from Python objects."""
    project: ProjectDeclaration
    workflows: dict[str, WorkflowDeclaration]
    """By id, from the project itself and from the files that it autoloads."""
    agents: dict[str, AgentDeclaration]
    """By id, those that all workflows see."""
    environment: Environment
    unset: tuple[Problem, ...] = ()
    """The places that name a variable that is not set, where the project may do without."""

    def embedder(self, embedder_id: str | None = None) -> EmbedderDeclaration:
        """An embedder; where none is declared there is `local`."""
        return _pick(defaults.embedders(self.project), embedder_id, "embedder")

    def vector_db(self, db_id: str | None = None) -> VectorDBDeclaration:
        """A vector database; where none is declared there is `sqlite`."""
        return _pick(defaults.vector_dbs(self.project), db_id, "vector database")

    def model(self, model_id: str | None = None) -> ModelDeclaration:
        """A chat model; where none is declared there is an extractive one, `default`."""
        return _pick(defaults.models(self.project), model_id, "model")

    def knowledge_base(
        self, kb_id: str, workflow: str | None = None
    ) -> tuple[KnowledgeBaseDeclaration, str]:
        """A knowledge base and its scope, `project` or `workflow/<id>`.

        Seen from a workflow, its own knowledge base shadows the project's of the same id.
        """
        own = [] if workflow is None else self.workflow(workflow).knowledge_bases
        # The workflow's own come last, so that they win in the look-up by id.
        found = _pick([*self.project.knowledge_bases, *own], kb_id, "knowledge base")
        scope = f"workflow/{workflow}" if any(found is kb for kb in own) else PROJECT_SCOPE
        return found, scope

    def is_existing(self, kb: KnowledgeBaseDeclaration) -> bool:
        """Whether others fill a knowledge base."""
        return self.vector_db(kb.vector_db).is_existing

    def default_strategy(self, kb: KnowledgeBaseDeclaration) -> str:
        """How a knowledge base is searched where nothing says it."""
        default: str = type(kb.retrieval).model_fields["strategy"].default
        return "similarity" if self.is_existing(kb) else default

    def hit_score(self, kb: KnowledgeBaseDeclaration) -> float | None:
        """The cosine of the best passage below which a match is weak, as far as files tell.

        What embeds for an object that others have made is not known, and for that of a factory
        only where the knowledge base names it.
        """
        maker = getattr(self.vector_db(kb.vector_db), "class_path", None)
        if self.is_existing(kb) and (
            isinstance(maker, LiveObject) or (maker is None and kb.embedder is None)
        ):
            return None
        return self.embedder(kb.embedder).known_hit_score

    def every_knowledge_base(self) -> list[tuple[KnowledgeBaseDeclaration, str | None]]:
        """All there are, each with the workflow that declares it; None is the project."""
        every: list[tuple[KnowledgeBaseDeclaration, str | None]] = [
            (kb, None) for kb in self.project.knowledge_bases
        ]
        for workflow in self.workflows.values():
            every += [(kb, workflow.id) for kb in workflow.knowledge_bases]
        return every

    def workflow(self, workflow_id: str) -> WorkflowDeclaration:
        return _pick(list(self.workflows.values()), workflow_id, "workflow")

    def agent(self, agent_id: str, workflow: str | None = None) -> AgentDeclaration:
        """An agent; seen from a workflow, its own shadows the project's of the same id."""
        own = [] if workflow is None else self.workflow(workflow).agents
        return _pick([*self.agents.values(), *own], agent_id, "agent")

    def passage_template(self, name: str) -> str:
        """The template of passages that a file of the project holds.

        Raises:
            UsageError: the file cannot be read, or is no template of passages.
        """
        return read_passage_template(self.root, name)

    def task(self, task_id: str, workflow: str) -> TaskBase:
        """A task of a workflow, those in other tasks too."""
        tasks = list(self.workflow(workflow).every_task())
        return _pick(tasks, task_id, f"task of workflow {workflow!r}")


def _pick(items: Sequence[T], item_id: str | None, what: str) -> T:
    by_id = {item.id: item for item in items}
    if item_id is None:
        return defaults.first(items)
    if item_id not in by_id:
        raise NotFoundError(f"there is no {what} {item_id!r}; {did_you_mean(item_id, by_id)}")
    return by_id[item_id]
