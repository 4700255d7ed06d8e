"""`tool_filters:` the keys of metadata by which the tools of models can narrow a search."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BaseModel

from lorebind_config.dates import is_date
from lorebind_config.declarations.base import Fault, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lorebind_config.declarations.sources import SourceBase, ValueType

_MOST = 16
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,47}")
_TAKEN = (
    *("query", "knowledge_base", "knowledge_bases", "filters", "top_k", "pattern", "regex"),
    *("document", "after", "id", "first_line", "last_line"),
    *("runtime", "config", "run_manager", "callbacks"),
)
"""Arguments that tools have already, or that LangChain takes for its own."""


def _checked(keys: list[str]) -> list[str]:
    if faults := list(_faults(keys)):
        raise RefusedError(faults)
    return keys


def _faults(keys: Sequence[str]) -> Iterator[Fault]:
    if len(keys) > _MOST:
        yield Fault(f"there are more than {_MOST} keys", "list those that narrow a search best")
    for at, key in enumerate(keys):
        if not _NAME.fullmatch(key) or key in _TAKEN or hasattr(BaseModel, key):
            hint = "choose a key of letters, digits and '_', which tools do not use themselves"
            yield Fault(f"{key!r} cannot be an argument of a tool", hint, (at,))
        elif key in keys[:at]:
            yield Fault(f"{key!r} is listed twice", "list it once", (at,))


ToolFilters = Annotated[list[str], AfterValidator(_checked)]
"""Keys of metadata that can be arguments of tools."""


def declared_type(key: str, sources: Sequence[SourceBase]) -> ValueType | None:
    """Return the type of the values of a key, as sources declare it; None if they do not say."""
    types: set[ValueType | None] = set()
    for source in sources:
        declared = source.metadata
        if declared is None:
            continue
        if key in declared.types:
            types.add(declared.types[key])
        elif key in declared.static:
            types.add(type_of_value(declared.static[key]))
        elif key in declared.from_document:
            types.add("date" if key in ("created", "modified") else "string")
    return types.pop() if len(types) == 1 else None


def type_of_value(value: object) -> ValueType | None:
    """Return the type of a declared value; None for null."""
    match value:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "date" if is_date(value) else "string"
        case list():
            return "list"
    return None
