"""Metadata filters in SQL, with the same meaning as in `filters`.

The column `fields` holds the metadata as jsonb, in a form that PostgreSQL compares as Python does.
`dates` holds those of its values that are dates, because it would take PostgreSQL longer to
recognize a date than to compare a vector. A condition on values of another type is null instead of
false, so `is not true` negates it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from lorebind_config.dates import is_date
from lorebind_config.filters import operators_of, resolved
from lorebind_knowledge.database.postgres_address import escaped
from lorebind_knowledge.stores.base import batches

_ORDERINGS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_SURROGATE = re.compile("[\ud800-\udfff]")
# Matches the JSON of all values that `_comparable` changes, and of few others.
_TO_BE_CHANGED = re.compile(r"[eE]\+|\\u000[01]")
_MOST_TESTS = 100
"""Maximum number of tests in a path, which PostgreSQL evaluates recursively."""
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


def as_dates(metadata: Mapping[str, Any]) -> str:
    """Return the value of the column `dates` for metadata, as JSON."""
    return _JSON.encode({escaped(key): value for key, value in metadata.items() if is_date(value)})


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
        return f"({_all(condition, values)}) is not true"
    tests = [_operator(name, key, operand, values) for key, operand in operators_of(condition)]
    return f"({' and '.join(tests)})"


def _operator(name: str, key: str, operand: Any, values: dict[str, Any]) -> str:
    match key:
        case "$eq":
            return _equals_any(name, [operand], values)
        case "$ne":
            return f"({_equals_any(name, [operand], values)}) is not true"
        case "$in":
            return _equals_any(name, operand, values)
        case "$nin":
            return f"({_equals_any(name, operand, values)}) is not true"
        case "$exists":
            there = f"fields ? {_value(name, values)}::text" if _is_text(name) else "false"
            return f"(({there}) = {operand})"
        case _:
            return _compares(name, _ORDERINGS[key], operand, values)


def _equals_any(name: str, operands: Iterable[Any], values: dict[str, Any]) -> str:
    # A path that is not strict compares each item of a list, too. This uses the index.
    tests = [
        f"$.{_json(name)} == {_json(operand)}" for operand in operands if _is_text(name, operand)
    ]
    paths = [_value(" || ".join(part), values) for part in batches(tests, _MOST_TESTS)]
    some = [f"fields @@ {path}::jsonpath" for path in paths]
    return f"({' or '.join(some)})" if some else "false"


def _compares(name: str, sign: str, operand: Any, values: dict[str, Any]) -> str:
    if not _is_text(name):
        return "false"
    if is_date(operand):
        stored = f"(dates ->> {_value(name, values)}::text)"
        return f'{stored} collate "C" {sign} {_value(operand, values)}::text'
    if isinstance(operand, str) and (surrogate := _SURROGATE.search(operand)):
        # A surrogate sorts between the two characters around it that PostgreSQL can store.
        operand, sign = operand[: surrogate.start()] + "\ue000", ">=" if ">" in sign else "<"
    path = _value(f"strict $.{_json(name)} {sign} {_json(operand)}", values)
    # Not `@@`, for which PostgreSQL expects the index to find ranges, too.
    return f"jsonb_path_match(fields, {path}::jsonpath, '{{}}', true)"


def _json(value: Any) -> str:
    return json.dumps(_comparable(value))


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
