"""Metadata filters in SQL, on the column `fields`, with the same meaning as in `filters`.

`fields` holds the metadata as jsonb, in a form that PostgreSQL compares as Python does. A condition
is never null, so that `not` gives the opposite.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from lorebind_config.dates import FORMS, is_date
from lorebind_config.filters import operators_of, resolved
from lorebind_knowledge.database.postgres_address import escaped

_ORDERINGS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_SURROGATE = re.compile("[\ud800-\udfff]")
# Matches the JSON of all values that `_comparable` changes, and of few others.
_TO_BE_CHANGED = re.compile(r"[eE]\+|\\u000[01]")
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def as_fields(metadata: Mapping[str, Any]) -> str:
    """Return the value of the column `fields` for metadata, as JSON.

    Raises:
        TypeError, ValueError: JSON cannot represent the metadata.
    """
    text = _JSON.encode(dict(metadata))
    if not _TO_BE_CHANGED.search(text):
        return text
    return _JSON.encode(_comparable(json.loads(text)))


def sql_filter(where: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a filter as an SQL condition, with its parameters.

    Raises:
        UsageError: the filter is malformed.
    """
    values: dict[str, Any] = {}
    return _all(resolved(where), values), values


def _all(where: Mapping[str, Any], values: dict[str, Any]) -> str:
    parts = [_entry(name, condition, values) for name, condition in where.items()]
    return f"({' and '.join(parts)})" if parts else "true"


def _entry(name: str, condition: Any, values: dict[str, Any]) -> str:
    if name in ("$and", "$or"):
        joint = f" {name[1:]} "
        return f"({joint.join(_all(part, values) for part in condition)})"
    if name == "$not":
        return f"not {_all(condition, values)}"
    tests = [_operator(name, key, operand, values) for key, operand in operators_of(condition)]
    return f"({' and '.join(tests)})"


def _operator(name: str, key: str, operand: Any, values: dict[str, Any]) -> str:
    match key:
        case "$eq":
            return _equals_any(name, [operand], values)
        case "$ne":
            return f"not {_equals_any(name, [operand], values)}"
        case "$in":
            return _equals_any(name, operand, values)
        case "$nin":
            return f"not {_equals_any(name, operand, values)}"
        case "$exists":
            there = f"fields ? {_value(name, values)}::text" if _is_text(name) else "false"
            return f"(({there}) = {operand})"
        case _:
            return _compares(name, _ORDERINGS[key], operand, values)


def _equals_any(name: str, operands: Iterable[Any], values: dict[str, Any]) -> str:
    # As `{"name": 1}` and as an item of a list, because containment uses the index.
    tests = [
        f"fields @> {_value(json.dumps({escaped(name): form}), values)}::jsonb"
        for operand in operands
        if _is_text(name, operand)
        for form in (_comparable(operand), [_comparable(operand)])
    ]
    return f"({' or '.join(tests)})" if tests else "false"


def _compares(name: str, sign: str, operand: Any, values: dict[str, Any]) -> str:
    if not _is_text(name):
        return "false"
    key = f"{_value(name, values)}::text"
    if isinstance(operand, str):
        kind, stored = "string", f'(fields ->> {key}) collate "C"'
        if surrogate := _SURROGATE.search(operand):
            # A surrogate sorts between the two characters around it that PostgreSQL can store.
            operand, sign = operand[: surrogate.start()] + "\ue000", ">=" if ">" in sign else "<"
        limit = f"{_value(operand, values)}::text"
    else:
        kind, stored = "number", f"(fields ->> {key})::numeric"
        limit = f"{_value(str(_comparable(operand)), values)}::numeric"
    test = f"{stored} {sign} {limit}"
    if is_date(operand):
        # A regular expression would take PostgreSQL longer than comparing a vector.
        digits = f"translate({stored}, '123456789', '000000000')"
        test = f"({test} and {digits} in {FORMS})"
    return f"case jsonb_typeof(fields -> {key}) when '{kind}' then {test} else false end"


def _value(value: str, values: dict[str, Any]) -> str:
    name = f"where{len(values)}"
    values[name] = value
    return f"%({name})s"


def _is_text(*values: Any) -> bool:
    """Return whether PostgreSQL can store all texts among the values."""
    return not any(isinstance(value, str) and _SURROGATE.search(value) for value in values)


def _comparable(value: Any) -> Any:
    """Return a JSON value with exact whole numbers and texts that PostgreSQL can store."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, list):
        return [_comparable(member) for member in value]
    if isinstance(value, dict):
        return {escaped(key): _comparable(member) for key, member in value.items()}
    return value
