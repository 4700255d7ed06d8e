"""`channels:` state that the tasks of a workflow share, beside messages, extra and errors."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from lorebind_knowledge.declarations.base import Declaration
from lorebind_knowledge.declarations.values import FactoryPath, JsonValue

CHANNELS = ("messages", "extra", "errors")
"""Those that every workflow has."""


class ChannelDeclaration(Declaration):
    """A value that tasks update, and how two updates are combined."""

    label: ClassVar[str] = "channel"

    reducers: list[FactoryPath] = Field(
        default_factory=list,
        description="Functions `(value, update) -> value`, as 'module:function', called one after "
        "the other. Without any, an update replaces the value, and two tasks that run side by side "
        "may not both write it.",
    )
    default: JsonValue = Field(None, description="The value at the start of every turn.")
