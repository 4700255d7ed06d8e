"""`input:` the inputs of a workflow."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field, model_validator

from lorebind_config.declarations.base import Declaration, Fault, RefusedError
from lorebind_config.declarations.values import JsonValue

_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


class InputDeclaration(Declaration):
    """A value that is passed to a run of the workflow."""

    label: ClassVar[str] = "input"

    # The same as `_default_has_the_type`. If `type` is omitted, its default applies.
    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [
                {
                    "if": {
                        "properties": {"type": {"const": name}},
                        "required": [] if name == "string" else ["type"],
                    },
                    "then": {"properties": {"default": {"type": [name, "null"]}}},
                }
                for name in _TYPES
            ]
        }
    )

    type: Literal["string", "integer", "number", "boolean", "array", "object"] = Field(
        "string", description="The JSON type of the value."
    )
    description: str = Field("", description="The meaning of the value.")
    required: bool = Field(
        True, description="Whether a run without the value is refused, if there is no default."
    )
    default: JsonValue = Field(None, description="The value if a run does not pass one.")

    @model_validator(mode="after")
    def _default_has_the_type(self) -> InputDeclaration:
        if self.default is not None and not self.accepts(self.default):
            raise RefusedError(
                [Fault(f"the default is not of type {self.type}", path=("default",))]
            )
        return self

    def accepts(self, value: Any) -> bool:
        """Check whether a value has the declared type; a boolean is not a number."""
        if isinstance(value, bool) and self.type != "boolean":
            return False
        return isinstance(value, _TYPES[self.type])
