"""The tools that an agent declares, as LangChain tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_bindings.resolver import resolve_tool
from lorebind_config.checks.named_code import named_object
from lorebind_config.declarations.agents import CodeTool
from lorebind_config.errors import UsageError

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_config.declarations.agents import AgentDeclaration
    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_config.templates import Environment
    from lorebind_knowledge.service import KnowledgeService
    from lorebind_prompts import TokenCounter

_EXPECTED = "a LangChain tool, or a function of the project folder or of an installed package"


def agent_request(
    loaded: LoadedProject,
    service: KnowledgeService,
    counter: TokenCounter,
    agent: AgentDeclaration | None,
    *,
    workflow: str | None = None,
    task: str | None = None,
) -> dict[str, Any]:
    """Return the fields of a `Request` that an agent sets: its instructions, tools and schema.

    Args:
        loaded: the project. Its code is imported if the agent names code as a tool.
        service: the project's knowledge.
        counter: counts the tokens of the model that answers.
        agent: the agent that answers; None sets no fields.
        workflow: the id of the workflow in which it answers.
        task: the id of the task in which it answers.

    Raises:
        UsageError: an object that the agent names as a tool is not a tool, or two tools have the
            same name.
    """
    if agent is None:
        return {}
    return {
        "instructions": agent.instructions,
        "tools": _tools(loaded, service, counter, agent, workflow, task) if agent.tools else [],
        "max_iterations": agent.max_iterations,
        "output_schema": agent.output_schema,
    }


def tool_bindings(
    loaded: LoadedProject,
    agent: AgentDeclaration | None,
    *,
    workflow: str | None = None,
    task: str | None = None,
) -> list[ResolvedBinding]:
    """Return the bindings that the knowledge tools of an agent search.

    The tools are those that `agent_request` makes.
    """
    if agent is None:
        return []
    return [
        resolve_tool(loaded, tool, agent.id, workflow=workflow, task=task)
        for tool in agent.tools
        if not isinstance(tool, CodeTool)
    ]


def _tools(
    loaded: LoadedProject,
    service: KnowledgeService,
    counter: TokenCounter,
    agent: AgentDeclaration,
    workflow: str | None,
    task: str | None,
) -> list[BaseTool]:
    from lorebind_bindings.langchain.tool import knowledge_tool  # importing LangChain takes 0.5 s

    made: list[BaseTool] = []
    for declared in agent.tools:
        if isinstance(declared, CodeTool):
            tool = _of_code(declared, loaded.environment)
        else:
            binding = resolve_tool(loaded, declared, agent.id, workflow=workflow, task=task)
            about = loaded.knowledge_base(declared.id, workflow)[0].description.strip()
            tool = knowledge_tool(
                service,
                [binding],
                counter,
                name=declared.called,
                description=declared.description or about,
            )
        if any(tool.name == other.name for other in made):
            raise UsageError(f"agent {agent.id!r} has two tools with the name {tool.name!r}")
        made.append(tool)
    return made


def _of_code(declared: CodeTool, environment: Environment) -> BaseTool:
    """Return the tool that the declaration names, or make one from the function it names."""
    from langchain_core.tools import BaseTool, tool

    found = named_object(declared, environment, ("call",), _EXPECTED, BaseTool)
    if isinstance(found, BaseTool):
        return found
    try:
        made: BaseTool = tool(parse_docstring=True, error_on_invalid_docstring=False)(found)
    except Exception as error:  # LangChain's complaint about the docstring or the annotations
        at = declared.position()
        where = f"{at}: " if at.line else ""
        raise UsageError(f"{where}tool: {declared.call} cannot be a tool: {error}") from error
    return made
