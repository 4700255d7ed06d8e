"""The arguments with which a model narrows the search of a tool by metadata.

A knowledge base lists the keys under `tool_filters`. Each becomes an optional argument with the
type that the sources declare. The conditions are added to the filters in effect, and never replace
them.
"""

from __future__ import annotations

import datetime
import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, create_model

from lorebind_config.errors import did_you_mean
from lorebind_knowledge.documents.fields import list_fields
from lorebind_knowledge.documents.reading import unmet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
    from lorebind_knowledge.service import KnowledgeService

M = TypeVar("M", bound=BaseModel)

_ANY: Any = str | int | float | bool | list[str | int | float | bool] | None
_KINDS: dict[str | None, Any] = {
    "string": str | list[str] | None,
    "number": int | float | list[int | float] | None,
    "boolean": bool | None,
}
"""The types of arguments by the declared type of a key. A list may have values of any type."""
_OTHER_TYPE = re.compile(r"true|false|-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?")
"""Texts that may stand for a value of another type."""


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
        return cast("type[M]", _extended(arguments, tuple(self.types.items())))

    def where(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the condition of the arguments of a call; empty if it does not narrow."""
        where: dict[str, Any] = {}
        for key, kind in self.types.items():
            if kind == "date":
                ends = {"$gte": values.get(f"{key}_from"), "$lte": values.get(f"{key}_to")}
                if limits := {sign: _date(end) for sign, end in ends.items() if end is not None}:
                    where[key] = limits
            elif (value := values.get(key)) not in (None, []):
                entries = value if isinstance(value, list) else [value]
                where[key] = {"$in": [form for entry in entries for form in _forms(entry, kind)]}
        return where


@lru_cache  # each call of an MCP tool needs them, and making a model takes milliseconds
def _extended(
    arguments: type[BaseModel], types: tuple[tuple[str, str | None], ...]
) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for key, kind in types:
        only = f"Only what has this `{key}` in its metadata"
        if kind == "date":
            day = datetime.date | None
            since = Field(None, description=f"{only} or a later date, such as 2026-01-31.")
            until = Field(None, description=f"{only} or an earlier date.")
            fields |= {f"{key}_from": (day, since), f"{key}_to": (day, until)}
        else:
            several = "" if kind == "boolean" else ", or one of these"
            fields[key] = (_KINDS.get(kind, _ANY), Field(None, description=f"{only}{several}."))
    return create_model(arguments.__name__, __base__=(arguments, _Lenient), **fields)


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
    handles = [service.open(binding.id, binding.workflow) for binding in bindings]
    if any(handle.is_existing for handle in handles):
        return ""  # nobody knows what other programs store
    in_effect = [binding.settings.filters for binding in bindings]
    each = [*zip(handles, in_effect, strict=True)]

    missing = {name: condition for name, condition in where.items() if "$in" in condition}
    for handle, filters in each:
        missing = await handle.read(unmet, missing, where=filters) if missing else {}
    existing: dict[str, list[str]] = {name: [] for name in missing}
    for handle, filters in each if missing else ():
        for entry in await handle.read(list_fields, where=filters):
            if entry.key in existing:
                existing[entry.key] += [_as_text(value.value) for value in entry.values]
    return " ".join(
        f"No document has {name} {_as_text(value)}; {_hint(value, existing[name])}."
        for name, condition in missing.items()
        for value in condition["$in"][:1]
    )


def _hint(value: Any, existing: Sequence[str]) -> str:
    return did_you_mean(_as_text(value), dict.fromkeys(existing)) if existing else "omit it"


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _date(value: datetime.date | str) -> str:
    return value if isinstance(value, str) else value.isoformat()


def _forms(value: Any, kind: str | None) -> list[Any]:
    """Return the values to compare with; if any type is possible, also as another type."""
    if kind in _KINDS:
        return [value]
    if isinstance(value, str):
        return [value, json.loads(value)] if _OTHER_TYPE.fullmatch(value) else [value]
    return [value, json.dumps(value)]
