"""The part of a metadata filter that a Qdrant server can evaluate.

Qdrant's own conditions do not distinguish a missing field from an empty list, compare texts only
for equality, and cannot name every field. A hosted server also refuses to filter by fields without
an index. Each point therefore has `facts`, in one indexed field: a short hash for every field of
its metadata, one for every value that a field equals, and some for the order of numbers and dates,
see `ranges`. Equality, membership and existence are then exact, for any name and type of value.
`$gt` and similar operators may include values near the limit, and every other text for a text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from lorebind_config.filters import operators_of
from lorebind_config.namespace import digest
from lorebind_knowledge.stores.qdrant import ranges
from lorebind_knowledge.stores.qdrant.local_mode import qdrant

FACTS = "facts"
_FACT_LENGTH = 24  # 96 bits
_NO_FACT = ""


def facts(metadata: Mapping[str, Any]) -> list[str]:
    """Return the facts of a point, for conditions on equality and existence."""
    hashes = set()
    for name, value in metadata.items():
        hashes.add(_existence(name))
        for item in value if isinstance(value, list | tuple) else [value]:
            if item is None or isinstance(item, str | int | float):
                hashes.add(_equality(name, item))
        hashes.update(_place(name, prefix) for prefix in ranges.prefixes(value))
    return sorted(hashes)


def narrow(where: Mapping[str, Any], *, negated: bool = False) -> Any:
    """Return a condition that holds for all metadata that passes a filter; None if for any.

    Args:
        where: a filter that `resolved` has returned.
        negated: whether to negate the filter. Each condition is negated separately, so that
            conditions that are only necessary never exclude too much.
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
            values = [_equality(name, value) for value in operand]
            return has_fact(values, negated=negated != (key == "$nin"))
        case "$exists":
            return has_fact([_existence(name)], negated=negated == operand)
        case _:
            if negated:
                return None
            return has_fact(_place(name, prefix) for prefix in ranges.alternatives(key, operand))


def _joined(parts: list[Any], *, every: bool) -> Any:
    """Return the condition that every part holds, or that at least one does."""
    if every:
        parts = [part for part in parts if part is not None]
    if not parts or any(part is None for part in parts):
        return None
    models = qdrant("qdrant_client.models")
    return models.Filter(must=parts) if every else models.Filter(should=parts)


def has_fact(alternatives: Iterable[str], *, negated: bool = False) -> Any:
    """Return the condition that a point has at least one of some facts, or none of them."""
    models = qdrant("qdrant_client.models")
    any_of = models.MatchAny(any=sorted(set(alternatives)) or [_NO_FACT])
    condition = models.FieldCondition(key=FACTS, match=any_of)
    return models.Filter(must_not=[condition]) if negated else condition


def _existence(name: str) -> str:
    return digest("exists", name)[:_FACT_LENGTH]


def _place(name: str, prefix: str) -> str:
    return digest("place", name, prefix)[:_FACT_LENGTH]


def _equality(name: str, value: Any) -> str:
    # 1 equals 1.0, but True does not equal 1, and no float equals 2**53 + 1.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return digest("equals", name, json.dumps(value))[:_FACT_LENGTH]
