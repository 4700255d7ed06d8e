"""What Qdrant can be asked of a metadata filter.

Qdrant's own conditions do not tell a missing field from an empty list, compare texts only for
equality, and cannot name every field. A hosted server also refuses to filter by fields that have no
index. So each point carries `facts`, in one field with an index: a short hash for every field that
its metadata has, and one for every value that a field equals. Equality, membership and existence
are then exact, under any name and kind of value. `$gt` and its like only ask for the field.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.filters import operators_of
from lorebind_knowledge.identity import digest
from lorebind_knowledge.stores.qdrant.local_mode import qdrant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FACTS = "facts"
_FACT_LENGTH = 24  # 96 bits
_NO_FACT = ""


def facts(metadata: Mapping[str, Any]) -> list[str]:
    """What equality and existence may ask of a point."""
    known = set()
    for name, value in metadata.items():
        known.add(_existence(name))
        for item in value if isinstance(value, list | tuple) else [value]:
            if item is None or isinstance(item, str | int | float):
                known.add(_equality(name, item))
    return sorted(known)


def narrow(where: Mapping[str, Any], *, negated: bool = False) -> Any:
    """A condition that all metadata meets which passes a filter; None where all metadata does.

    Args:
        where: a filter that is well-formed.
        negated: whether to find what does not pass it. Each condition is negated by itself, so
            that those which only narrow never exclude too much.
    """
    parts = [_entry(name, condition, negated) for name, condition in where.items()]
    return _joined(parts, every=not negated)


def _entry(name: str, condition: Any, negated: bool) -> Any:
    if name == "$not":
        return narrow(condition, negated=not negated)
    if name in ("$and", "$or"):
        parts = [narrow(part, negated=negated) for part in condition]
        return _joined(parts, every=(name == "$and") != negated)
    parts = [_operator(name, key, operand, negated) for key, operand in operators_of(condition)]
    return _joined(parts, every=not negated)


def _operator(name: str, key: str, operand: Any, negated: bool) -> Any:
    match key:
        case "$eq" | "$ne":
            return has_fact([_equality(name, operand)], negated=negated != (key == "$ne"))
        case "$in" | "$nin":
            wanted = [_equality(name, value) for value in operand]
            return has_fact(wanted, negated=negated != (key == "$nin"))
        case "$exists":
            return has_fact([_existence(name)], negated=negated == operand)
        case _:
            return None if negated else has_fact([_existence(name)])


def _joined(parts: list[Any], *, every: bool) -> Any:
    """The condition that every part holds, or that at least one does."""
    if every:
        parts = [part for part in parts if part is not None]
    if not parts or any(part is None for part in parts):
        return None
    models = qdrant("qdrant_client.models")
    return models.Filter(must=parts) if every else models.Filter(should=parts)


def has_fact(wanted: Iterable[str], *, negated: bool = False) -> Any:
    """The condition that a point has at least one of some facts, or none of them."""
    models = qdrant("qdrant_client.models")
    any_of = models.MatchAny(any=sorted(set(wanted)) or [_NO_FACT])
    condition = models.FieldCondition(key=FACTS, match=any_of)
    return models.Filter(must_not=[condition]) if negated else condition


def _existence(name: str) -> str:
    return digest("exists", name)[:_FACT_LENGTH]


def _equality(name: str, value: Any) -> str:
    # 1 is 1.0, but true is not 1, and 2**53 + 1 is no float.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return digest("equals", name, json.dumps(value))[:_FACT_LENGTH]
