"""`channels:` state that the tasks of a workflow share, next to messages, extra and errors."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from lorebind_config.declarations.base import Declaration
from lorebind_config.declarations.values import FactoryPath, JsonValue

CHANNELS = ("messages", "extra", "errors")
"""The channels of every workflow."""


class ChannelDeclaration(Declaration):
    """A value that tasks update, and how updates are combined."""

    label: ClassVar[str] = "channel"

    reducers: list[FactoryPath] = Field(
        default_factory=list,
        description="Functions `(value, update) -> value`, as 'module:function', called in order. "
        "Without reducers, an update replaces the value, and tasks that run at the same time "
        "cannot both write it.",
    )
    default: JsonValue = Field(
        None, description="The value at the start of every turn of a thread."
    )
