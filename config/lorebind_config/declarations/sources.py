"""`sources:` the locations of a knowledge base's documents."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import ConfigDict, Field

from lorebind_config.declarations.base import Declaration
from lorebind_config.declarations.places import Place

MEGABYTE = 1024 * 1024
DEFAULT_MAX_BYTES = 4 * MEGABYTE


class SourceBase(Declaration):
    """The base of all source declarations, including those of plugins."""

    label: ClassVar[str] = "source"
    kind_key: ClassVar[str] = "type"
    declares_uris: ClassVar[bool] = False
    """Whether the documents' URIs consist of declared text only and therefore contain no secret."""

    max_bytes: int = Field(
        DEFAULT_MAX_BYTES,
        ge=1,
        le=1024 * MEGABYTE,
        description="Maximum size of one document in bytes; a larger document fails. By default "
        "4 MiB.",
    )

    @property
    def names(self) -> list[str] | None:
        """The settings that identify this source, as part of its key; None means all settings."""
        return None


def one_of(*alternatives: dict[str, Any]) -> ConfigDict:
    """Return a model configuration whose JSON Schema requires one of the alternatives."""
    return ConfigDict(json_schema_extra={"anyOf": list(alternatives)})


SourceDeclaration: TypeAlias = Annotated[
    SourceBase,
    Place("sources", SourceBase),
]
"""A source, selected by `type`: built in or from a plugin."""
