"""The tools that an agent declares, as LangChain tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from lorebind_bindings.mcp_servers import McpServer
from lorebind_bindings.tool_loop import refuse_repeated
from lorebind_config.checks.named_code import named_object
from lorebind_config.declarations.agents import CodeTool, KnowledgeTool, McpTools
from lorebind_config.declarations.retrieval import ReadTool
from lorebind_config.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.tools import BaseTool

    from lorebind_bindings.resolver import BindingScope, ResolvedBinding
    from lorebind_config.declarations.agents import AgentDeclaration
    from lorebind_config.templates import Environment
    from lorebind_knowledge.service import KnowledgeService
    from lorebind_prompts import TokenCounter

_EXPECTED = "a LangChain tool, or a function of the project folder or of an installed package"


def agent_request(
    scope: BindingScope,
    service: KnowledgeService,
    counter: TokenCounter,
    bindings: Sequence[ResolvedBinding] = (),
) -> dict[str, Any]:
    """Return the fields of a `Request` that a scope sets: those of its agent, and `read_tools`.

    The fields of an agent are its instructions, tools and schema. The project's code is imported if
    the agent names code as a tool.

    Args:
        scope: where the agent answers.
        service: the project's knowledge.
        counter: counts the tokens of the model that answers.
        bindings: the knowledge bases that are searched there, see `read_tools`.

    Raises:
        UsageError: an object that the agent names as a tool is not a tool, or two tools have the
            same name.
    """
    agent = scope.answers()
    searched = {binding.id: binding for binding in (*tool_bindings(scope), *bindings)}
    reading = read_tools(scope, service, counter, list(searched.values()))
    if agent is None:
        return {"tools": reading} if reading else {}
    tools = [*(_tools(scope, service, counter, agent) if agent.tools else []), *reading]
    refuse_repeated(tools, f"agent {agent.id!r}")
    return {
        "instructions": agent.instructions,
        "tools": tools,
        "max_iterations": agent.max_iterations,
        "output_schema": agent.output_schema,
    }


def read_tools(
    scope: BindingScope,
    service: KnowledgeService,
    counter: TokenCounter,
    bindings: Sequence[ResolvedBinding],
) -> list[BaseTool]:
    """Return the tools that read documents, each for the bindings that allow it.

    A tool is allowed by the `read_tools` of a binding, or by those of the agent for all bindings.
    """
    agent = scope.answers()
    everywhere = agent.read_tools if agent else []
    tools: list[BaseTool] = []
    for name in get_args(ReadTool):
        allowed = [
            binding for binding in bindings if name in (*everywhere, *binding.settings.read_tools)
        ]
        if allowed:
            from lorebind_bindings.langchain.reading import reading_tools

            about = scope.descriptions(allowed)
            tools += reading_tools(service, allowed, counter, names=[name], about=about)
    return tools


def tool_bindings(scope: BindingScope) -> list[ResolvedBinding]:
    """Return the bindings that the knowledge tools search which `agent_request` makes."""
    agent = scope.answers()
    tools = agent.tools if agent else ()
    return [scope.resolve_tool(tool) for tool in tools if isinstance(tool, KnowledgeTool)]


def _tools(
    scope: BindingScope, service: KnowledgeService, counter: TokenCounter, agent: AgentDeclaration
) -> list[BaseTool | McpServer]:
    from lorebind_bindings.langchain.tool import knowledge_tool  # importing LangChain takes 0.5 s

    tools: list[BaseTool | McpServer] = []
    for declared in agent.tools:
        tool: BaseTool | McpServer
        if isinstance(declared, CodeTool):
            tool = _of_code(declared, scope.loaded.environment)
        elif isinstance(declared, McpTools):
            tool = McpServer(declared.mcp, scope.loaded.environment)
        else:
            about = scope.loaded.knowledge_base(declared.id, scope.workflow)[0].description.strip()
            tool = knowledge_tool(
                service,
                [scope.resolve_tool(declared)],
                counter,
                name=declared.called,
                description=declared.description or about,
            )
        tools.append(tool)
    return tools


def _of_code(declared: CodeTool, environment: Environment) -> BaseTool:
    """Return the tool that the declaration names, or make one from the function it names."""
    from langchain_core.tools import BaseTool, tool

    code = named_object(declared, environment, ("call",), _EXPECTED, BaseTool)
    if isinstance(code, BaseTool):
        return code
    try:
        wrapped: BaseTool = tool(parse_docstring=True, error_on_invalid_docstring=False)(code)
    except Exception as error:  # LangChain's complaint about the docstring or the annotations
        at = declared.position()
        where = f"{at}: " if at.line else ""
        raise UsageError(f"{where}tool: {declared.call} cannot be a tool: {error}") from error
    return wrapped
