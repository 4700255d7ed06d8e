"""`knowledge:` the knowledge bases that a project, workflow, task or agent can search."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import AliasChoices, ConfigDict, Field, create_model, model_validator
from pydantic.fields import FieldInfo

from lorebind_config.declarations.base import (
    Declaration,
    Fault,
    Id,
    Position,
    RefusedError,
    refused,
)
from lorebind_config.declarations.retrieval import RetrievalDeclaration


def _or_null(info: FieldInfo) -> Any:
    """Return a field's type or None, which clears the field. The checks apply to values only."""
    checked: Any = info.annotation
    if info.metadata:
        checked = Annotated[(checked, *info.metadata)]
    return Annotated[checked | None, Field(description=info.description)]


if TYPE_CHECKING:
    # The fields are created below; callers read overrides through `overrides`, not one by one.
    RetrievalOverrides = Declaration
else:
    RetrievalOverrides = create_model(
        "RetrievalOverrides",
        __base__=Declaration,
        __module__=__name__,
        __doc__="Overrides for the fields of `retrieval`. null clears a value set elsewhere.",
        **{
            name: (_or_null(info), None) for name, info in RetrievalDeclaration.model_fields.items()
        },
    )


def _no_field_twice(schema: dict[str, Any]) -> None:
    """Express the validator of the same name in JSON Schema."""
    schema["dependentSchemas"] = {
        name: {"properties": {"retrieval": {"properties": {name: False}}}}
        for name in RetrievalDeclaration.model_fields
    }


def _one_id_and_no_field_twice(schema: dict[str, Any]) -> None:
    """Express the validators of a binding in JSON Schema."""
    binding = schema["properties"].pop("id")
    also = {"id_ref": binding | {"description": "Another name for `id`. Write only one of them."}}
    schema["properties"] = {"id": binding, **also, **schema["properties"]}
    del schema["required"]
    schema["oneOf"] = [{"required": ["id"]}, {"required": ["id_ref"]}]
    _no_field_twice(schema)


class BindingBase(RetrievalOverrides):
    """Overrides for the `retrieval` of a knowledge base, written directly or under `retrieval`."""

    model_config = ConfigDict(json_schema_extra=_no_field_twice)

    retrieval: RetrievalOverrides | None = Field(
        None,
        description="The same overrides, grouped in a mapping. Write each field in one place only.",
    )

    @model_validator(mode="after")
    def _no_field_twice(self) -> Self:
        twice = sorted(self._flat() & self._nested())
        if twice:
            message = "{} is set twice: here and next to 'retrieval'"
            raise RefusedError(
                Fault(message.format(name), "keep one of them", ("retrieval", name))
                for name in twice
            )
        return self

    def _flat(self) -> set[str]:
        return self.model_fields_set & RetrievalDeclaration.model_fields.keys()

    def _nested(self) -> set[str]:
        return set() if self.retrieval is None else self.retrieval.model_fields_set

    def overrides(self) -> dict[str, Any]:
        """Return the fields of `retrieval` that were written; None stands for an explicit null."""
        written = {name: getattr(self, name) for name in self._flat()}
        written |= {name: getattr(self.retrieval, name) for name in self._nested()}
        return {
            name: written[name] for name in RetrievalDeclaration.model_fields if name in written
        }

    def override_position(self, field: str) -> Position:
        """Return where an override was written, directly or under `retrieval`."""
        if field in self._nested() and self.retrieval is not None:
            return self.retrieval.position(field)
        return self.position(field)


class BindingDeclaration(BindingBase):
    """A knowledge base to search, and overrides for its `retrieval`."""

    label: ClassVar[str] = "binding"

    model_config = ConfigDict(json_schema_extra=_one_id_and_no_field_twice)

    id: Id = Field(
        validation_alias=AliasChoices("id", "id_ref"), description="The id of a knowledge base."
    )

    @model_validator(mode="before")
    @classmethod
    def _one_id(cls, data: Any) -> Any:
        if isinstance(data, dict) and "id" in data and "id_ref" in data:
            raise refused("id and id_ref mean the same", "keep one of them", "id_ref")
        return data
