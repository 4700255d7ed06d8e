"""The declarations as JSON Schema, for editors and for other tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic.json_schema import GenerateJsonSchema, NoDefault

from lorebind_knowledge.declarations.agents import AgentDeclaration
from lorebind_knowledge.declarations.project import ProjectDeclaration
from lorebind_knowledge.declarations.workflows import WorkflowDeclaration

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import core_schema

    from lorebind_knowledge.declarations.base import Declaration

Kind: TypeAlias = Literal["project", "workflow", "agent"]
"""What a file may declare."""

FILES: dict[Kind, type[Declaration]] = {
    "project": ProjectDeclaration,
    "workflow": WorkflowDeclaration,
    "agent": AgentDeclaration,
}


def json_schema(kind: Kind) -> dict[str, Any]:
    """The JSON Schema, draft 2020-12, of a project, workflow or agent file.

    It refuses nothing that loading accepts but the Python name of an aliased key. What it cannot
    say is left to loading: ids used twice or unknown, an overlap that is not less than the size,
    integers written as 5.0, templates, files that are not there, secrets deeper in free settings.
    """
    schema = FILES[kind].model_json_schema(schema_generator=_Generator)
    return {"$schema": _Generator.schema_dialect} | schema | {"title": f"Lorebind {kind} file"}


class _Generator(GenerateJsonSchema):
    """Pydantic's, without what only repeats the key, and as strict as the validation."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def get_default_value(self, schema: core_schema.WithDefaultSchema) -> Any:
        """Empty lists and mappings too; no null, which only says that there is no default."""
        factory: Any = schema.get("default_factory")
        if factory in (list, dict):
            return factory()
        default = super().get_default_value(schema)
        return NoDefault if default is None else default

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        made = super().tagged_union_schema(schema)
        made.pop("discriminator", None)  # a word of OpenAPI; each alternative has its tag
        return made

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        made = super().dict_schema(schema)
        if "patternProperties" in made:  # keys of another pattern are refused
            made["additionalProperties"] = False
        return made
