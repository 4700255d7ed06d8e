"""`agents:` models with their own instructions, knowledge and tools."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from lorebind_config.declarations.base import Declaration, Id
from lorebind_config.declarations.bindings import BindingDeclaration
from lorebind_config.declarations.tools import ToolDeclaration
from lorebind_config.declarations.values import JsonMap


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
        default_factory=list,
        description="The knowledge bases that the agent can search, in addition to those of outer "
        "scopes. `[]` means none at all.",
    )
    tools: list[ToolDeclaration] = Field(
        default_factory=list,
        description="Tools that the model can call before it answers. A string is the path of a "
        "function or of a LangChain tool: `module:name`.",
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
