"""The metadata filter in Qdrant's terms: exactly where its conditions can say it.

Qdrant's own conditions do not tell a missing field from an empty list, compare texts only for
equality, let a range look into lists, and cannot name every field. So each record carries `facts`:
one short hash for every field it has, and one for every value that it equals. Equality, membership
and existence are then exact, under any name and kind of value. What orders is narrowed as far as
possible, and decided in Python by `lorebind_knowledge.filters`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from lorebind_knowledge.identity import digest
from lorebind_knowledge.stores.qdrant.connection import qdrant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_FACT_LENGTH = 24  # 96 bits
_ORDERINGS = {"$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}
_PLAIN_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_EXACT_FLOAT = 2**53


class Narrowing(NamedTuple):
    """A condition that every record which passes a filter meets; None is met by every record."""

    condition: Any
    exact: bool
    """Whether only those that pass meet it."""


def facts(metadata: Mapping[str, Any]) -> list[str]:
    """What equality and existence may ask of a record."""
    known = set()
    for name, value in metadata.items():
        known.add(_existence(name))
        for item in value if isinstance(value, list | tuple) else [value]:
            if item is None or isinstance(item, str | int | float):
                known.add(_equality(name, item))
    return sorted(known)


def narrow(where: Mapping[str, Any]) -> Narrowing:
    """What Qdrant can be asked for a filter that is well-formed."""
    return _all([_entry(name, condition) for name, condition in where.items()])


def _entry(name: str, condition: Any) -> Narrowing:
    if name == "$and":
        return _all([narrow(part) for part in condition])
    if name == "$or":
        return _any([narrow(part) for part in condition])
    if name == "$not":
        return _not(narrow(condition))
    if isinstance(condition, Mapping):
        return _all([_operator(name, key, operand) for key, operand in condition.items()])
    if isinstance(condition, list | tuple | set | frozenset):
        return _member(name, condition)
    return _member(name, [condition])


def _operator(name: str, key: str, operand: Any) -> Narrowing:
    match key:
        case "$eq":
            return _member(name, [operand])
        case "$ne":
            return _not(_member(name, [operand]))
        case "$in":
            return _member(name, operand)
        case "$nin":
            return _not(_member(name, operand))
        case "$exists":
            there = Narrowing(_fact([_existence(name)]), exact=True)
            return there if operand else _not(there)
        case _:
            return _ordered(name, key, operand)


def _member(name: str, values: Iterable[Any]) -> Narrowing:
    # Of no value at all: a fact that no record has.
    wanted = sorted({_equality(name, value) for value in values}) or [""]
    return Narrowing(_fact(wanted), exact=True)


def _ordered(name: str, key: str, operand: Any) -> Narrowing:
    """A range looks into lists too, and a text has none: never exact."""
    models = qdrant("qdrant_client.models")
    number = not isinstance(operand, str) and abs(operand) < _EXACT_FLOAT
    if number and _PLAIN_FIELD.fullmatch(name):
        bounds = models.Range(**{_ORDERINGS[key]: operand})
        return Narrowing(models.FieldCondition(key=f"metadata.{name}", range=bounds), exact=False)
    return Narrowing(_fact([_existence(name)]), exact=False)


def _all(parts: Sequence[Narrowing]) -> Narrowing:
    conditions = [part.condition for part in parts if part.condition is not None]
    exact = all(part.exact for part in parts)
    if len(conditions) < 2:
        return Narrowing(conditions[0] if conditions else None, exact)
    return Narrowing(qdrant("qdrant_client.models").Filter(must=conditions), exact)


def _any(parts: Sequence[Narrowing]) -> Narrowing:
    conditions = [part.condition for part in parts]
    exact = all(part.exact for part in parts)
    if None in conditions:
        return Narrowing(None, exact and any(p.condition is None and p.exact for p in parts))
    return Narrowing(qdrant("qdrant_client.models").Filter(should=conditions), exact)


def _not(part: Narrowing) -> Narrowing:
    if not part.exact:
        return Narrowing(None, exact=False)
    if part.condition is None:
        return Narrowing(_fact([""]), exact=True)
    return Narrowing(qdrant("qdrant_client.models").Filter(must_not=[part.condition]), exact=True)


def _fact(wanted: list[str]) -> Any:
    models = qdrant("qdrant_client.models")
    return models.FieldCondition(key="lorebind.facts", match=models.MatchAny(any=wanted))


def _existence(name: str) -> str:
    return digest("exists", name)[:_FACT_LENGTH]


def _equality(name: str, value: Any) -> str:
    # 1 is 1.0, but true is not 1, and 2**53 + 1 is no float.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return digest("equals", name, json.dumps(value))[:_FACT_LENGTH]
