"""`agents:` a model with instructions, knowledge and tools of its own."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from lorebind_knowledge.declarations.base import Declaration, Id
from lorebind_knowledge.declarations.bindings import BindingDeclaration
from lorebind_knowledge.declarations.tools import ToolDeclaration
from lorebind_knowledge.declarations.values import JsonMap


class AgentDeclaration(Declaration):
    """A model with its own instructions, knowledge and tools."""

    label: ClassVar[str] = "agent"

    resource: Literal["agent"] | None = Field(
        None, description="Written in a file that declares an agent."
    )
    id: Id = Field(description="The name by which tasks refer to the agent.")
    description: str = Field("", description="What the agent is for.")
    model: str | None = Field(
        None, description="The id of a model. By default the one called `default`, else the first."
    )
    instructions: str = Field("", description="The system message, word for word.")
    knowledge: list[BindingDeclaration] = Field(
        default_factory=list, description="The knowledge bases that the agent may use."
    )
    tools: list[ToolDeclaration] = Field(
        default_factory=list,
        description="What the model may call before it answers. A text is the path of a function "
        "or of a tool of LangChain: `module:name`.",
    )
    max_iterations: int = Field(
        10,
        ge=1,
        le=1000,
        description="How often the model may call tools for one answer, several at once counted as "
        "one. A further call is an error.",
    )
    output_schema: JsonMap | None = Field(
        None,
        description="The JSON Schema of the answer, which is then JSON. By default the answer is "
        "text.",
    )
