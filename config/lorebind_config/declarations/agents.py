"""`agents:` models with their own instructions and knowledge, and with tools to call."""

import re
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from lorebind_config.declarations.base import (
    Declaration,
    Id,
    Matching,
    OrForm,
    Settings,
    empty_list,
    refused,
)
from lorebind_config.declarations.bindings import BindingBase, BindingDeclaration
from lorebind_config.declarations.objects import FactoryOrObject, is_object
from lorebind_config.declarations.retrieval import ReadTool
from lorebind_config.declarations.values import FACTORY_PATH, JsonMap, TextMap, WebAddress


class McpServerDeclaration(Settings):
    """A server: a command that speaks MCP over standard input and output, or a URL.

    A command runs in the project folder for the time of an answer, and needs trust, as all code
    does. It gets `env`, and of the environment only names such as `PATH` and `HOME`.
    """

    templated: ClassVar[tuple[str, ...]] = ("command", "args", "env", "url", "headers")

    command: str | None = Field(None, min_length=1, description="The program to run.")
    args: list[str] = Field(default_factory=empty_list, description="command: its arguments.")
    env: TextMap = Field(default_factory=dict, description="command: variables to set for it.")
    url: WebAddress | None = Field(None, description="The URL of a server over streamable HTTP.")
    headers: TextMap = Field(
        default_factory=dict, description="url: headers to send, such as `Authorization`."
    )
    tools: list[str] = Field(
        default_factory=empty_list,
        description="The names of the tools that the agent can call. By default all.",
    )
    prefix: Annotated[
        str,
        Matching(
            r"[A-Za-z0-9_-]{0,32}",
            "{!r} cannot begin the name of a tool",
            "use at most 32 letters, digits, '_' and '-'",
        ),
    ] = Field(
        "",
        description="Put before the names of the tools, as in `shop_`, if two servers have tools "
        "with the same name.",
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.command is None and self.url is None:
            raise refused("the MCP server has no address", "write either 'command' or 'url'")
        if self.command is not None and self.url is not None:
            raise refused("command and url are both given", "keep one of them", "url")
        other, only = ("url", ("headers",)) if self.url is None else ("command", ("args", "env"))
        for field in only:
            if getattr(self, field):
                raise refused(f"{field} needs {other!r}", f"remove {field}", field)
        return self


_LONGEST_NAME = 64
_TOOL_NAME = rf"^[A-Za-z0-9_-]{{1,{_LONGEST_NAME}}}$"
"""The names that the APIs of all chat models accept."""


ToolName = Annotated[
    str,
    Matching(
        _TOOL_NAME,
        "{!r} cannot be the name of a tool",
        f"use at most {_LONGEST_NAME} letters, digits, '_' and '-'",
    ),
]
"""The name of a tool, as the model sees it."""


class CodeTool(Declaration):
    """A tool from code: a function or a LangChain tool, of the project or of a package."""

    label: ClassVar[str] = "tool"
    marked_by: ClassVar[str] = "call"

    call: FactoryOrObject = Field(
        description="A function, sync or async, or a LangChain tool, as 'module:name', in the "
        "project folder or in an installed package. A function needs a docstring, which tells the "
        "model what the function does."
    )


class KnowledgeTool(BindingBase):
    """A tool that searches a knowledge base, and overrides for its `retrieval`."""

    label: ClassVar[str] = "tool"

    knowledge: Id = Field(description="The id of the knowledge base.")
    name: ToolName | None = Field(
        None,
        description="The name of the tool, as the model sees it. By default `search_` and the id "
        "of the knowledge base.",
    )
    description: str = Field(
        "",
        description="The contents of the knowledge base, for the model. By default the description "
        "of the knowledge base.",
    )

    @property
    def id(self) -> str:
        """The id of the knowledge base, under the name that bindings use."""
        return self.knowledge

    @property
    def called(self) -> str:
        """The name of the tool, as the model sees it."""
        return self.name or search_tool_name([self.knowledge])


class McpTools(Declaration):
    """The tools of an MCP server."""

    label: ClassVar[str] = "tool"
    marked_by: ClassVar[str] = "mcp"

    mcp: McpServerDeclaration = Field(description="The server. The extra `mcp` has its client.")


def search_tool_name(kb_ids: Iterable[str]) -> str:
    """Return the default name of a tool that searches knowledge bases."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", f"search_{'_'.join(kb_ids)}")[:_LONGEST_NAME]


def _spelt_out(value: Any) -> Any:
    if isinstance(value, str) and ":" not in value:
        hint = f"for a knowledge base write {{ knowledge: {value} }}"
        raise refused(f"{value!r} is not of the form 'module:name'", hint)
    if isinstance(value, dict) and not value.keys() & {"call", "knowledge", "mcp"}:
        hint = (
            "write { call: 'module:name' } for code, { knowledge: ID } for a search, "
            "{ mcp: { command: … } } or { mcp: { url: … } } for the tools of a server"
        )
        raise refused("a tool needs the key 'call', 'knowledge' or 'mcp'", hint)
    is_tool = not isinstance(value, Declaration) and is_object(value)
    return {"call": value} if isinstance(value, str) or is_tool else value


def _kind_of_tool(value: Any) -> str:
    for kind in (CodeTool, McpTools):
        if isinstance(value, kind) or (isinstance(value, dict) and kind.marked_by in value):
            return kind.__name__
    return KnowledgeTool.__name__


ToolDeclaration: TypeAlias = Annotated[
    Annotated[CodeTool, Tag(CodeTool.__name__)]
    | Annotated[McpTools, Tag(McpTools.__name__)]
    | Annotated[KnowledgeTool, Tag(KnowledgeTool.__name__)],
    Discriminator(_kind_of_tool),
    BeforeValidator(_spelt_out),
    OrForm({"type": "string", "pattern": FACTORY_PATH}),
]
"""A tool, selected by its key; a string is the path of code."""


class AgentDeclaration(Declaration):
    """A model with its own instructions, knowledge and tools."""

    label: ClassVar[str] = "agent"

    resource: Literal["agent"] | None = Field(
        None, description="Marks a file that declares an agent: `resource: agent`."
    )
    id: Id = Field(description="The name by which tasks refer to the agent.")
    description: str = Field("", description="The purpose of the agent.")
    model: str | None = Field(
        None,
        description="The id of a model. By default, the model with the id `default`, else the "
        "first model.",
    )
    instructions: str = Field(
        "", description="The system message. It is sent to the model unchanged."
    )
    knowledge: list[BindingDeclaration] = Field(
        default_factory=empty_list,
        description="The knowledge bases that the agent can search, in addition to those of outer "
        "scopes. `[]` means none at all.",
    )
    tools: list[ToolDeclaration] = Field(
        default_factory=empty_list,
        description="Tools that the model can call before it answers. A string is the path of a "
        "function or of a LangChain tool: `module:name`.",
    )
    read_tools: list[ReadTool] = Field(
        default_factory=empty_list,
        description="Tools with which the model reads the documents of all knowledge bases that it "
        "is bound to or searches by its tools, in addition to the `read_tools` of each of them.",
    )
    max_iterations: int = Field(
        10,
        ge=1,
        le=1000,
        description="Maximum number of rounds of tool calls per answer. Tool calls that the model "
        "makes at the same time count as one round. A further round is an error.",
    )
    output_schema: JsonMap | None = Field(
        None,
        description="The JSON Schema of the answer. The model then answers with JSON. By default, "
        "the answer is text.",
    )
