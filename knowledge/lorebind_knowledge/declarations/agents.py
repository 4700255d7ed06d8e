"""`agents:` a model with instructions and knowledge of its own."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from lorebind_knowledge.declarations.base import Declaration, Id
from lorebind_knowledge.declarations.bindings import BindingDeclaration


class AgentDeclaration(Declaration):
    """A model with its own instructions and knowledge."""

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
