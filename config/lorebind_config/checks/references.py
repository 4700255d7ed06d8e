"""Checks ids across all files: no two of a kind are the same, and every reference is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lorebind_config.declarations.agents import AgentDeclaration, KnowledgeTool
from lorebind_config.declarations.base import Declaration, within
from lorebind_config.declarations.bindings import BindingDeclaration
from lorebind_config.declarations.embedders import NONE, OFF
from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
from lorebind_config.declarations.models import EXTRACTIVE
from lorebind_config.declarations.project import SPARSE, McpDeclaration, ProjectDeclaration
from lorebind_config.declarations.retrieval import CondenseDeclaration
from lorebind_config.declarations.tasks import with_nested
from lorebind_config.declarations.workflows import WorkflowDeclaration
from lorebind_config.declarations.wrappers import ExtensionBase
from lorebind_config.errors import Problem, did_you_mean
from lorebind_config.templates import looks_like_one


@dataclass(frozen=True, slots=True)
class _Known:
    """The ids that can be referred to from one location; None if an id could not be read."""

    embedders: frozenset[str] | None
    sparse_embedders: frozenset[str] | None
    """Including the built-in one and `off`."""
    vector_dbs: frozenset[str] | None
    models: frozenset[str] | None
    knowledge_bases: frozenset[str] | None
    agents: frozenset[str] | None
    extractive: frozenset[str]
    """The ids of the extractive models."""


def duplicates(
    project: ProjectDeclaration,
    agents: Sequence[AgentDeclaration],
    workflows: Sequence[WorkflowDeclaration],
) -> Iterator[Problem]:
    """Find ids that are used twice, and extensions that would write each event twice."""
    yield from _repeated_extensions(project.extensions)
    groups: list[Iterable[Any]] = [agents, workflows]
    groups += [project.embedders, project.sparse_embedders]
    groups += [project.vector_dbs, project.models]
    groups += [project.knowledge_bases, project.knowledge]
    for workflow in workflows:
        tasks = list(with_nested(workflow.tasks))
        groups += [workflow.knowledge_bases, workflow.knowledge, workflow.agents, tasks]
        groups += [task.bindings for task in tasks]
        groups += [agent.knowledge for agent in workflow.agents]
    groups += [agent.knowledge for agent in agents]
    for group in groups:
        yield from _repeated(group)


def _repeated(group: Iterable[Any]) -> Iterator[Problem]:
    first: dict[str, Declaration] = {}
    for item in group:
        if not isinstance(item.id, str):
            continue
        if item.id in first:
            message = f"{item.label} id {item.id!r} is used twice"
            where = first[item.id].position("id")
            yield item.problem(("id",), message, f"it is first used at {where}")
        else:
            first[item.id] = item


def _repeated_extensions(extensions: Iterable[ExtensionBase]) -> Iterator[Problem]:
    first: dict[tuple[str, str], Declaration] = {}
    for extension in extensions:
        if extension.written_to is None:
            continue
        word = getattr(extension, extension.kind_key)
        where = first.setdefault((word, extension.written_to), extension)
        if where is not extension:
            message = (
                f"two extensions {word!r} write to {extension.written_to}, so that each event is "
                "counted or logged twice"
            )
            hint = f"keep one of them; the first is at {where.position()}"
            yield extension.problem((extension.kind_key,), message, hint)


def dangling(
    project: ProjectDeclaration,
    agents: Sequence[AgentDeclaration],
    workflows: Sequence[WorkflowDeclaration],
) -> Iterator[Problem]:
    """Find references to unknown ids, except where the id may be in a part that is not readable."""
    ids = _Known(
        embedders=_ids(project.embedders_or_default, frozenset({NONE})),
        sparse_embedders=_ids(project.sparse_embedders, frozenset({SPARSE, OFF})),
        vector_dbs=_ids(project.vector_dbs_or_default),
        models=_ids(project.models_or_default),
        knowledge_bases=_ids(project.knowledge_bases),
        agents=_ids(agents),
        extractive=frozenset(
            model.id for model in project.models_or_default if model.provider == EXTRACTIVE
        ),
    )
    yield from _knowledge_bases(project.knowledge_bases, ids)
    yield from _bindings(project.knowledge, project.title, ids)
    yield from _narrowed(project.mcp, ids)
    yield from _names_tenants(project)
    for agent in agents:
        yield from _agent(agent, ids)
    for workflow in workflows:
        yield from _workflow(workflow, ids)


def _narrowed(mcp: McpDeclaration, ids: _Known) -> Iterator[Problem]:
    for at, kb_id in enumerate(mcp.knowledge_bases):
        if ids.knowledge_bases is not None and kb_id not in ids.knowledge_bases:
            message = f"mcp names the unknown knowledge base {kb_id!r}"
            hint = did_you_mean(kb_id, ids.knowledge_bases)
            yield mcp.problem(("knowledge_bases", at), message, hint)


def _names_tenants(project: ProjectDeclaration) -> Iterator[Problem]:
    declared = project.server.authorization
    if declared is not None and declared.tenant_claim is None and project.tenancy == "required":
        message = "the project requires tenants, but its authorization has no tenant_claim"
        yield declared.problem((), message, "write the claim that names the tenant of a caller")


def _workflow(workflow: WorkflowDeclaration, outside: _Known) -> Iterator[Problem]:
    ids = replace(
        outside,
        knowledge_bases=_ids(workflow.knowledge_bases, outside.knowledge_bases),
        agents=_ids(workflow.agents, outside.agents),
    )
    yield from _knowledge_bases(workflow.knowledge_bases, ids)
    yield from _bindings(workflow.knowledge, workflow.title, ids)
    for agent in workflow.agents:
        yield from _agent(agent, ids)
    for task in with_nested(workflow.tasks):
        owner = task.title
        yield from _bindings(task.bindings, owner, ids)
        if task.answers_as is not None:
            yield from _reference(task, owner, "agent", "agent", ids.agents)


def _agent(agent: AgentDeclaration, ids: _Known) -> Iterator[Problem]:
    owner = agent.title
    yield from _bindings(agent.knowledge, owner, ids)
    for tool in agent.tools:
        if isinstance(tool, KnowledgeTool):
            yield from _reference(tool, owner, "knowledge", "knowledge base", ids.knowledge_bases)
            yield from _condensing(tool, owner, ids)
    yield from _reference(agent, owner, "model", "model", ids.models)


def _knowledge_bases(
    knowledge_bases: Iterable[KnowledgeBaseDeclaration], ids: _Known
) -> Iterator[Problem]:
    for kb in knowledge_bases:
        owner = kb.title
        yield from _reference(kb, owner, "embedder", "embedder", ids.embedders)
        yield from _reference(kb, owner, "sparse", "sparse embedder", ids.sparse_embedders)
        yield from _reference(kb, owner, "vector_db", "vector database", ids.vector_dbs)
        yield from _condensing(kb.retrieval, owner, ids)


def _bindings(bindings: Iterable[BindingDeclaration], owner: str, ids: _Known) -> Iterator[Problem]:
    for binding in bindings:
        yield from _reference(binding, owner, "id", "knowledge base", ids.knowledge_bases, "binds")
        yield from _condensing(binding, owner, ids)


def _condensing(declared: Declaration, owner: str, ids: _Known) -> Iterator[Problem]:
    for inner, _ in within(declared):
        if isinstance(inner, CondenseDeclaration):
            yield from _reference(inner, owner, "model", "model", ids.models)
            if inner.model in ids.extractive:
                message = f"{owner}: model {inner.model!r} is extractive and cannot condense"
                hint = "name another model, or write: condense: turns"
                yield inner.problem(("model",), message, hint)


def _reference(
    declaration: Declaration,
    owner: str,
    field: str,
    what: str,
    ids: frozenset[str] | None,
    verb: str = "uses",
) -> Iterator[Problem]:
    name = getattr(declaration, field)
    if not isinstance(name, str) or ids is None or name in ids:
        return
    if not looks_like_one(name):  # the template checks already report a template in this field
        message = f"{owner} {verb} unknown {what} {name!r}"
        yield declaration.problem((field,), message, did_you_mean(name, ids))


def _ids(
    items: Iterable[Any], outside: frozenset[str] | None = frozenset()
) -> frozenset[str] | None:
    ids = [item.id for item in items]
    if outside is None or not all(isinstance(name, str) for name in ids):
        return None
    return outside.union(ids)
