"""Checks the tools and output schemas of agents without running anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.checks.json_schemas import schema_faults
from lorebind_config.checks.references import named, problem_at
from lorebind_config.declarations import defaults
from lorebind_config.declarations.models import EXTRACTIVE
from lorebind_config.declarations.tools import CodeTool, KnowledgeTool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lorebind_config.declarations.agents import AgentDeclaration
    from lorebind_config.declarations.base import Declaration
    from lorebind_config.declarations.models import ModelDeclaration
    from lorebind_config.errors import Problem


def agents(
    declared: Iterable[AgentDeclaration], models: Sequence[ModelDeclaration]
) -> Iterator[Problem]:
    """Find tools that share a name, invalid output schemas, and settings a model cannot use."""
    for agent in declared:
        yield from _repeated(agent)
        yield from _quoting(agent, models)
        if isinstance(agent.output_schema, dict):
            for path, message in schema_faults(agent.output_schema):
                at = ("output_schema", *path)
                yield problem_at(agent, at, f"output_schema is not a valid JSON Schema: {message}")


def _quoting(agent: AgentDeclaration, models: Sequence[ModelDeclaration]) -> Iterator[Problem]:
    """Find the settings of an agent that its extractive model would ignore.

    A project that declares no models is not checked, because a call may bring its own model.
    """
    model = defaults.meant(models, agent.model) if models else None
    if model is None or model.provider != EXTRACTIVE:
        return
    beyond = {"tools": "cannot call tools", "output_schema": "cannot write JSON"}
    for field, why in beyond.items():
        if getattr(agent, field):
            owner = named(agent, agent.id)
            message = f"{owner} has {field}, but its model {model.id!r} (extractive) {why}"
            yield problem_at(agent, (field,), message, f"name a chat model, or remove {field}")


def _repeated(agent: AgentDeclaration) -> Iterator[Problem]:
    first: dict[str, Declaration] = {}
    for tool in agent.tools:
        called = _called(tool)
        if called in first:
            owner = named(agent, agent.id)
            message = f"{owner} has two tools {called!r}"
            hint = f"the first is at {first[called].position()}"
            if isinstance(tool, KnowledgeTool):
                hint += "; give this one another 'name'"
            yield problem_at(tool, (), message, hint)
        elif called is not None:
            first[called] = tool


def _called(tool: CodeTool | KnowledgeTool) -> str | None:
    """Return the name that the tool must not share with others, or its code path for a function.

    None if it could not be read. The name of a function is known only after it is imported.
    """
    given = tool.call if isinstance(tool, CodeTool) else (tool.name or tool.knowledge)
    if not isinstance(given, str):
        return None
    return str(given) if isinstance(tool, CodeTool) else tool.called
