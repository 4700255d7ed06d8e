"""`agents:` a model with instructions and knowledge of its own."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from lorebind_knowledge.declarations.base import Declaration, Id
from lorebind_knowledge.declarations.bindings import BindingDeclaration


class AgentDeclaration(Declaration):
    """A model with instructions and knowledge of its own."""

    label: ClassVar[str] = "agent"

    resource: Literal["agent"] | None = Field(
        None, description="Says of a file of its own that it declares an agent."
    )
    id: Id = Field(description="The name by which tasks refer to the agent.")
    description: str = Field("", description="What the agent is for.")
    model: str | None = Field(
        None, description="The id of a model; left out, the project's default."
    )
    instructions: str = Field("", description="The system message, as it stands.")
    knowledge: list[BindingDeclaration] = Field(
        default_factory=list, description="The knowledge bases that the agent may use."
    )
