"""Ids across all files: each used once among its kind, and every reference leads somewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.declarations import defaults
from lorebind_knowledge.errors import Problem, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lorebind_knowledge.declarations.agents import AgentDeclaration
    from lorebind_knowledge.declarations.base import Declaration
    from lorebind_knowledge.declarations.bindings import BindingDeclaration
    from lorebind_knowledge.declarations.knowledge_bases import KnowledgeBaseDeclaration
    from lorebind_knowledge.declarations.project import ProjectDeclaration
    from lorebind_knowledge.declarations.workflows import WorkflowDeclaration


@dataclass(frozen=True, slots=True)
class _Known:
    """The ids that can be seen from somewhere."""

    embedders: frozenset[str]
    vector_dbs: frozenset[str]
    models: frozenset[str]
    knowledge_bases: frozenset[str]
    agents: frozenset[str]


def problem_at(
    declaration: Declaration, path: tuple[str | int, ...], message: str, hint: str = ""
) -> Problem:
    """A problem with a field of a declaration, or with what stands at a path below it."""
    at = declaration.position(*path)
    return Problem(at.file, at.line, at.column, message, hint)


def duplicates(
    project: ProjectDeclaration | None,
    agents: Sequence[AgentDeclaration],
    workflows: Sequence[WorkflowDeclaration],
) -> Iterator[Problem]:
    """Ids that are used twice where each may be used once."""
    groups: list[Iterable[Any]] = [agents, workflows]
    if project is not None:
        groups += [project.embedders, project.vector_dbs, project.models]
        groups += [project.knowledge_bases, project.knowledge]
    for workflow in workflows:
        groups += [workflow.knowledge_bases, workflow.knowledge, workflow.agents, workflow.tasks]
        groups += [task.knowledge for task in workflow.tasks]
        groups += [agent.knowledge for agent in workflow.agents]
    groups += [agent.knowledge for agent in agents]
    for group in groups:
        yield from _repeated(group)


def _repeated(group: Iterable[Any]) -> Iterator[Problem]:
    first: dict[str, Declaration] = {}
    for item in group:
        if item.id in first:
            message = f"{item.label} id {item.id!r} is used twice"
            where = first[item.id].position("id")
            yield problem_at(item, ("id",), message, f"it is used first at {where}")
        else:
            first[item.id] = item


def dangling(
    project: ProjectDeclaration,
    agents: Sequence[AgentDeclaration],
    workflows: Sequence[WorkflowDeclaration],
    unread_agents: Iterable[str] = (),
) -> Iterator[Problem]:
    """References to what is not there; the files of `unread_agents` have other problems."""
    known = _Known(
        embedders=_ids(defaults.embedders(project)),
        vector_dbs=_ids(defaults.vector_dbs(project)),
        models=_ids(defaults.models(project)),
        knowledge_bases=_ids(project.knowledge_bases),
        agents=_ids(agents) | frozenset(unread_agents),
    )
    yield from _knowledge_bases(project.knowledge_bases, known)
    yield from _bindings(project.knowledge, f"project {project.name!r}", known)
    for agent in agents:
        yield from _agent(agent, known)
    for workflow in workflows:
        yield from _workflow(workflow, known)


def _workflow(workflow: WorkflowDeclaration, outside: _Known) -> Iterator[Problem]:
    known = _Known(
        embedders=outside.embedders,
        vector_dbs=outside.vector_dbs,
        models=outside.models,
        knowledge_bases=outside.knowledge_bases | _ids(workflow.knowledge_bases),
        agents=outside.agents | _ids(workflow.agents),
    )
    yield from _knowledge_bases(workflow.knowledge_bases, known)
    yield from _bindings(workflow.knowledge, f"workflow {workflow.id!r}", known)
    for agent in workflow.agents:
        yield from _agent(agent, known)
    for task in workflow.tasks:
        owner = f"task {task.id!r}"
        yield from _bindings(task.knowledge, owner, known)
        yield from _reference(task, owner, "agent", "agent", known.agents)


def _agent(agent: AgentDeclaration, known: _Known) -> Iterator[Problem]:
    owner = f"agent {agent.id!r}"
    yield from _bindings(agent.knowledge, owner, known)
    yield from _reference(agent, owner, "model", "model", known.models)


def _knowledge_bases(
    knowledge_bases: Iterable[KnowledgeBaseDeclaration], known: _Known
) -> Iterator[Problem]:
    for kb in knowledge_bases:
        owner = f"knowledge base {kb.id!r}"
        yield from _reference(kb, owner, "embedder", "embedder", known.embedders)
        yield from _reference(kb, owner, "vector_db", "vector database", known.vector_dbs)


def _bindings(
    bindings: Iterable[BindingDeclaration], owner: str, known: _Known
) -> Iterator[Problem]:
    for binding in bindings:
        if binding.id not in known.knowledge_bases:
            message = f"{owner} binds unknown knowledge base {binding.id!r}"
            hint = did_you_mean(binding.id, known.knowledge_bases)
            yield problem_at(binding, ("id",), message, hint)


def _reference(
    declaration: Declaration, owner: str, field: str, what: str, known: frozenset[str]
) -> Iterator[Problem]:
    name = getattr(declaration, field)
    if name is not None and name not in known:
        message = f"{owner} uses unknown {what} {name!r}"
        yield problem_at(declaration, (field,), message, did_you_mean(name, known))


def _ids(items: Iterable[Any]) -> frozenset[str]:
    return frozenset(item.id for item in items)
