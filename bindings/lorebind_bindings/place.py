"""A place in a project from which a question is asked. It determines what is searched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lorebind_bindings.resolver import bind, override, resolve, unbound_by
from lorebind_config.errors import UsageError

if TYPE_CHECKING:
    from lorebind_bindings.resolver import Provenance, ResolvedBinding
    from lorebind_config.declarations.agents import AgentDeclaration
    from lorebind_config.reading.loaded import LoadedProject


@dataclass(frozen=True, slots=True)
class Place:
    """Knowledge bases by name, or a workflow, one of its tasks, an agent, or the project."""

    loaded: LoadedProject
    kb_ids: tuple[str, ...] = ()
    workflow: str | None = None
    """The workflow in which ids are looked up."""
    task: str | None = None
    agent: str | None = None

    def bindings(self, **settings: Any) -> list[ResolvedBinding]:
        """Return the bindings to search here; `settings` override fields of `retrieval`.

        The list is empty if `knowledge: []` says so.

        Raises:
            NotFoundError: there is no such knowledge base, workflow, task or agent.
            UsageError: no scope says what is bound here, or a setting is invalid.
        """
        found = self.bindings_or_none(**settings)
        if not found and self.unbound_by() is None:
            raise UsageError(
                "no knowledge base is bound here; name one, as in project.retriever('docs')"
            )
        return found

    def check(self) -> None:
        """Check that something is bound here, or that the agent here can answer without.

        Raises:
            NotFoundError: there is no such knowledge base, workflow, task or agent.
            UsageError: no scope says what is bound here, and no agent here has tools or a schema.
        """
        agent = self.answers()
        if agent is None or not (agent.tools or agent.output_schema is not None):
            self.bindings()

    def bindings_or_none(self, **settings: Any) -> list[ResolvedBinding]:
        """Return the bindings, or an empty list: an agent may have only tools or a schema."""
        found = (
            [bind(self.loaded, kb_id, self.workflow) for kb_id in self.kb_ids]
            if self.kb_ids
            else resolve(self.loaded, workflow=self.workflow, task=self.task, agent=self.agent)
        )
        return [override(binding, **settings) for binding in found]

    def unbound_by(self) -> Provenance | None:
        """Return where `knowledge: []` removes the bindings of outer scopes; None if nowhere."""
        return unbound_by(self.loaded, workflow=self.workflow, task=self.task, agent=self.agent)

    def answers(self) -> AgentDeclaration | None:
        """Return the agent that answers here: the named agent, otherwise the task's agent.

        Raises:
            NotFoundError: there is no such workflow, task or agent.
        """
        agent = self.agent
        if agent is None and self.task is not None and self.workflow is not None:
            agent = self.loaded.task(self.task, self.workflow).answers_as
        return None if agent is None else self.loaded.agent(agent, self.workflow)

    def description(self) -> str:
        """Return the declared descriptions of the knowledge bases, joined into one text."""
        said = (
            self.loaded.knowledge_base(binding.id, self.workflow)[0].description
            for binding in self.bindings()
        )
        return " ".join(text.strip() for text in said if text.strip())
