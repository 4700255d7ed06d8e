"""The arguments with which a model narrows the search of a tool by metadata.

A knowledge base lists the keys under `tool_filters`. Each becomes an optional argument with the
type that the sources declare. The conditions are added to the filters in effect, and never replace
them.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, create_model

from lorebind_config.errors import did_you_mean
from lorebind_knowledge.documents.fields import list_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
    from lorebind_knowledge.service import KnowledgeService

M = TypeVar("M", bound=BaseModel)

_KINDS: dict[str | None, Any] = {
    "string": str | list[str] | None,
    "list": str | list[str] | None,
    "number": int | float | list[int | float] | None,
    "boolean": bool | None,
    None: str | int | float | bool | list[str | int | float | bool] | None,
}
"""The types of arguments by the declared type of a key."""


class _Lenient(BaseModel):
    # Models write numbers for texts now and then.
    model_config = ConfigDict(coerce_numbers_to_str=True)


@dataclass(frozen=True)
class ToolFilters:
    """The keys by which the tools of some knowledge bases narrow a search, with their types."""

    types: Mapping[str, str | None] = field(default_factory=dict)

    @classmethod
    def of(cls, declarations: Iterable[KnowledgeBaseDeclaration]) -> ToolFilters:
        """Return the keys that any of the knowledge bases lists."""
        types: dict[str, str | None] = {}
        for declaration in declarations:
            for key in declaration.tool_filters:
                kind = declaration.type_of(key)
                types[key] = kind if types.get(key, kind) == kind else None
        return cls(types)

    def extend(self, arguments: type[M]) -> type[M]:
        """Return the arguments of a tool with one for each key; two for a date."""
        if not self.types:
            return arguments
        fields: dict[str, Any] = {}
        for key, kind in self.types.items():
            only = f"Only what has this `{key}` in its metadata"
            if kind == "date":
                day = datetime.date | None
                since = Field(None, description=f"{only} or a later date, such as 2026-01-31.")
                until = Field(None, description=f"{only} or an earlier date.")
                fields |= {f"{key}_from": (day, since), f"{key}_to": (day, until)}
            else:
                several = "" if kind == "boolean" else ", or one of these"
                fields[key] = (_KINDS[kind], Field(None, description=f"{only}{several}."))
        bases: Any = (arguments, _Lenient)
        return cast("type[M]", create_model(arguments.__name__, __base__=bases, **fields))

    def where(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the condition of the arguments of a call; empty if it does not narrow."""
        where: dict[str, Any] = {}
        for key, kind in self.types.items():
            if kind == "date":
                ends = {"$gte": values.get(f"{key}_from"), "$lte": values.get(f"{key}_to")}
                if limits := {sign: _date(end) for sign, end in ends.items() if end is not None}:
                    where[key] = limits
            elif (value := values.get(key)) is not None:
                entries = value if isinstance(value, list) else [value]
                where[key] = {"$in": [form for entry in entries for form in _forms(entry, kind)]}
        return where


def of_bindings(service: KnowledgeService, bindings: Sequence[ResolvedBinding]) -> ToolFilters:
    """Return the keys by which a tool that reads these bindings can narrow."""
    handles = (service.open(binding.id, binding.workflow) for binding in bindings)
    return ToolFilters.of(handle.declaration for handle in handles)


async def unknown_values(
    service: KnowledgeService, bindings: Sequence[ResolvedBinding], where: Mapping[str, Any]
) -> str:
    """Return sentences about values that no document has, with the known ones; "" if none.

    Args:
        service: the project's knowledge.
        bindings: the knowledge bases, each with the filter in effect without the arguments.
        where: the condition of the arguments, as `ToolFilters.where` returns it.
    """
    names = {key for key, condition in where.items() if "$in" in condition}
    by_name: dict[str, dict[str, Any]] = {name: {} for name in names}
    for binding in bindings if names else ():
        handle = service.open(binding.id, binding.workflow)
        if handle.is_existing:
            continue
        for entry in await handle.read(list_fields, where=binding.settings.filters):
            if entry.key in by_name:
                by_name[entry.key] |= {_shown(value.value): value.value for value in entry.values}
    return " ".join(
        sentence
        for name in where
        if name in by_name and (sentence := _sentence(name, where[name]["$in"], by_name[name]))
    )


def _sentence(name: str, values: Sequence[Any], existing: Mapping[str, Any]) -> str:
    if not existing:
        return f"No document has the metadata {name!r}; omit it."
    missing = [_shown(value) for value in values if _shown(value) not in existing]
    if len(missing) < len(values):
        return ""
    return f"No document has {name} {missing[0]}; {did_you_mean(missing[0], list(existing))}."


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _date(value: datetime.date | str) -> str:
    return value if isinstance(value, str) else value.isoformat()


def _forms(value: Any, kind: str | None) -> list[Any]:
    """Return the values to compare with; for a key without a declared type also as another type."""
    if kind is not None:
        return [value]
    if isinstance(value, str):
        try:
            other = json.loads(value)
        except ValueError:
            return [value]
        return [value, other] if isinstance(other, bool | int | float) else [value]
    return [value, json.dumps(value)]
