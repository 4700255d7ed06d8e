"""The declarations as JSON Schema, for editors and other tools."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal, TypeAlias

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, NoDefault
from pydantic_core import core_schema

from lorebind_config.declarations.agents import AgentDeclaration
from lorebind_config.declarations.base import NESTED, Declaration, empty_list
from lorebind_config.declarations.project import ProjectDeclaration
from lorebind_config.declarations.workflows import WorkflowDeclaration

Kind: TypeAlias = Literal["project", "workflow", "agent"]
"""The kinds of files."""

FILES: dict[Kind, type[Declaration]] = {
    "project": ProjectDeclaration,
    "workflow": WorkflowDeclaration,
    "agent": AgentDeclaration,
}


def json_schema(kind: Kind) -> dict[str, Any]:
    """Return the JSON Schema, draft 2020-12, of a project, workflow or agent file.

    It accepts all valid files, except that an aliased key must not be written by its Python name.
    Some problems are found only when a file is loaded: duplicate or unknown ids, an overlap that is
    not less than the size, integers written as 5.0, wrong templates, wrong conditions of filters,
    missing files, and secrets in nested free settings.
    """
    schema = FILES[kind].model_json_schema(schema_generator=SchemaGenerator)
    return {"$schema": SchemaGenerator.schema_dialect} | schema | {"title": f"Lorebind {kind} file"}


class SchemaGenerator(GenerateJsonSchema):
    """Pydantic's generator, without titles that repeat the key, and as strict as validation."""

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        """Describe each nested declaration once, where its validator only names it."""
        around = dict(schema.get("metadata", {}))
        nested = around.pop(NESTED, None)
        if nested is None:
            return super().generate_inner(schema)
        around.pop("pydantic_js_functions", None)  # those of the class, which its own schema has
        name = nested.schema_ref()
        if name not in self._described:
            self._described.add(name)  # before it is described, as it may contain itself
            nested.model_rebuild()
            super().generate_inner({**nested.__pydantic_core_schema__, "ref": name})
        reference = core_schema.definition_reference_schema(name, metadata=around)
        return super().generate_inner(reference)

    @cached_property
    def _described(self) -> set[str]:
        return set()

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def get_default_value(self, schema: core_schema.WithDefaultSchema) -> Any:
        """Include empty lists and mappings; omit null, which only means "no default"."""
        factory: Any = schema.get("default_factory")
        if factory in (empty_list, dict):
            return factory()
        default = super().get_default_value(schema)
        return NoDefault if default is None else default

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        union = super().tagged_union_schema(schema)
        union.pop("discriminator", None)  # an OpenAPI keyword; each alternative has its own tag
        return union

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        mapping = super().dict_schema(schema)
        if "patternProperties" in mapping:  # refuse keys that match no pattern
            mapping["additionalProperties"] = False
        return mapping
