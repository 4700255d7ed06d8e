"""Tools and answers of agents, as far as it can be told before they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.configuration.json_schemas import schema_faults
from lorebind_knowledge.configuration.references import named, problem_at
from lorebind_knowledge.declarations.tools import CodeTool, KnowledgeTool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lorebind_knowledge.declarations.agents import AgentDeclaration
    from lorebind_knowledge.declarations.base import Declaration
    from lorebind_knowledge.errors import Problem


def agents(declared: Iterable[AgentDeclaration]) -> Iterator[Problem]:
    """Tools of one name, and what is wrong with an `output_schema`."""
    for agent in declared:
        yield from _repeated(agent)
        if isinstance(agent.output_schema, dict):
            for path, message in schema_faults(agent.output_schema):
                at = ("output_schema", *path)
                yield problem_at(agent, at, f"output_schema is no JSON Schema: {message}")


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
    """What tells a tool from the others; the name of a function is known when it is imported."""
    given = tool.call if isinstance(tool, CodeTool) else (tool.name or tool.knowledge)
    if not isinstance(given, str):  # it cannot be read
        return None
    return str(given) if isinstance(tool, CodeTool) else tool.called
