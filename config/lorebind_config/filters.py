"""The metadata filter, which selects the records that a search can return, equal on every store.

A filter is a mapping. Each entry names a field of a record's metadata, or is a logical operator.
All entries must hold, so an empty filter matches every record.

==================================  ================================================================
``field: value``                    the stored value equals it, or is a list that contains it
``field: [a, b]``                   the same as ``field: {$in: [a, b]}``
``field: {$eq: value}``             the same as ``field: value``
``field: {$ne: value}``             not ``$eq``; also true if the field is missing
``field: {$in: [a, b]}``            ``$eq`` holds for at least one of them; ``[]`` matches nothing
``field: {$nin: [a, b]}``           not ``$in``; also true if the field is missing
``field: {$gt: value}``             greater; ``$gte`` or equal, ``$lt`` less, ``$lte`` or equal
``field: {$newer_than: 90d}``       a date in the 90 days before the search; ``$older_than``: before
                                    them. Units are ``h``, ``d``, ``w``, and ``y`` of 365 days
``field: {$exists: true}``          the field exists, even if it is null; ``false``: it is missing
``$and: [filter, …]``               all filters hold; at least one is required
``$or: [filter, …]``                at least one filter holds; at least one is required
``$not: filter``                    the filter does not hold
==================================  ================================================================

- Several operators under one field must all hold: ``{"year": {"$gte": 2020, "$lt": 2024}}``.
- Values are strings, numbers, true, false and null. Numbers are compared by value: 1 equals 1.0.
  true does not equal 1, null equals only null, and a string never equals a number. Strings are
  compared by code points and are case-sensitive.
- ``$gt``, ``$gte``, ``$lt`` and ``$lte`` can hold only between two numbers or two strings. They are
  false for all other values, such as lists, true and false, and for a missing field.
- Dates are strings in ISO 8601, or dates of Python and YAML. Metadata stores them in UTC, see
  ``lorebind_config.dates``, and zones make no difference. A date is greater or less than dates
  only, not than other strings. ``$gt`` and ``$lte`` with a day mean its end, ``$gte`` and ``$lt``
  its start: ``{"$gte": "2026-01-01", "$lte": "2026-01-31"}`` is January.
- A field is a top-level key of the metadata. A dot in its name has no special meaning.
- A filter has at most 256 conditions and nested filters, which are nested at most 32 deep. ``$in``
  and ``$nin`` take any number of values.
"""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from lorebind_config.dates import (
    AGE_FORM,
    date_before,
    date_text,
    is_date,
    is_day,
    next_day,
    parsed_date,
)
from lorebind_config.errors import UsageError, did_you_mean

Predicate: TypeAlias = Callable[[Mapping[str, Any]], bool]
"""Checks whether the filter holds for the metadata of one record."""

_Test: TypeAlias = Callable[[Any], bool]

# The value that tests receive for a missing field: unlike null, it equals nothing.
_MISSING = object()

_ORDERINGS: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_AGES = {"$newer_than": "$gte", "$older_than": "$lt"}
"""Operators that compare with a time before now, each with the operator for that time."""
_FIELD_OPERATORS = ("$eq", "$in", "$nin", "$ne", *_ORDERINGS, *_AGES, "$exists")
_LOGICAL_OPERATORS = ("$and", "$or", "$not")


MOST_CONDITIONS, DEEPEST = 256, 32
_MOST_ERRORS = 100

T = TypeVar("T")


def compile_filter(where: Mapping[str, Any]) -> Predicate:
    """Return the predicate of a filter, for stores that evaluate filters in Python.

    Raises:
        UsageError: the filter is malformed or too large; the error lists all mistakes, each with
            its path in the filter and what is expected.
    """
    _check_size(where)
    return _filter(where)


def resolved(where: Mapping[str, Any]) -> dict[str, Any]:
    """Return a filter for stores: with dates as texts that compare as stored ones, without ages.

    An age counts from now, so call it at each search. The result has the same meaning as a filter
    too, and its operands are JSON values.

    Raises:
        UsageError: the filter is malformed or too large.
    """
    compile_filter(where)
    return _resolved(where)


def _resolved(where: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    more: list[dict[str, Any]] = []
    for name, condition in where.items():
        if name == "$not":
            plain[name] = _resolved(condition)
        elif name in _LOGICAL_OPERATORS:
            plain[name] = [_resolved(part) for part in condition]
        else:
            tests: dict[str, Any] = {}
            for operator_ in operators_of(condition):
                key, operand = _without_dates(*operator_)
                # `$newer_than` becomes `$gte`, which may be there too
                if key in _ORDERINGS and is_date(operand) and is_date(tests.get(key)):
                    stricter = max if key in ("$gt", "$gte") else min
                    tests[key] = stricter(tests[key], operand)
                elif key == "$nin" and key in tests:  # `$ne` becomes it for a date
                    tests[key] = [*tests[key], *operand]
                elif key in tests:
                    more.append({name: {key: operand}})
                else:
                    tests[key] = operand
            plain[name] = tests
    return {**plain, "$and": [*plain.get("$and", []), *more]} if more else plain


def _without_dates(key: str, operand: Any) -> tuple[str, Any]:
    """Return an operator and its operand with the same meaning for stored dates as texts."""
    if key in _AGES:
        return _AGES[key], date_before(operand)
    if key in _ORDERINGS:
        return _bound(key, operand)
    if key in ("$in", "$nin"):
        return key, [form for value in operand for form in _forms(value)]
    if key in ("$eq", "$ne") and len(forms := _forms(operand)) > 1:
        return ("$in" if key == "$eq" else "$nin"), forms
    return key, _forms(operand)[0] if key in ("$eq", "$ne") else operand


def _forms(value: Any) -> list[Any]:
    """Return a value as it may be stored: a date as it is written too, for what others stored."""
    if isinstance(value, datetime.date):
        return [_text_of(value)]
    date = parsed_date(value) if isinstance(value, str) else None
    return [value] if date in (None, value) else [value, date]


def _bound(key: str, operand: Any) -> tuple[str, Any]:
    """Return an ordering whose limit is a stored date, if the operand is a date."""
    if isinstance(operand, datetime.date):
        date: str | None = _text_of(operand)
    else:
        date = parsed_date(operand) if isinstance(operand, str) else None
    if date is None:
        return key, operand
    if is_day(date):
        after = next_day(date) if key in ("$gt", "$lte") else None
        return ("$gte" if key == "$gt" else "$lt", after) if after else (key, date)
    # A stored day is its midnight, but sorts before it.
    return key, date.removesuffix("T00:00:00Z") if key in ("$gte", "$lt") else date


def _text_of(value: datetime.date) -> str:
    try:
        return date_text(value)
    except OverflowError:
        raise UsageError(f"{value} is not a date in UTC") from None


def _check_size(where: Any) -> None:
    count, level = 0, [where]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for part in level:
            for name, condition in part.items() if isinstance(part, Mapping) else ():
                if name in ("$and", "$or") and _is_list(condition):
                    inner += condition
                elif name == "$not":
                    inner.append(condition)
                else:
                    count += len(condition) if isinstance(condition, Mapping) else 1
        count += len(inner)
        if count > MOST_CONDITIONS:
            raise UsageError(
                f"a filter has at most {MOST_CONDITIONS} conditions and nested filters; to compare "
                "a field with many values, use $in"
            )
        if not inner:
            return
        level = inner
    raise UsageError(f"a filter is nested at most {DEEPEST} deep")


def _filter(where: Any) -> Predicate:
    if not isinstance(where, Mapping):
        raise UsageError(f"a filter is a mapping of fields to values, not {where!r}")
    return _all(_each(_entry, ((name, (name, condition)) for name, condition in where.items())))


def _each(compile_part: Callable[..., T], parts: Iterable[tuple[Any, tuple[Any, ...]]]) -> list[T]:
    """Compile the parts: the key or index of each, and its arguments. Collect all mistakes."""
    compiled: list[T] = []
    errors: list[UsageError] = []
    for step, arguments in parts:
        try:
            compiled.append(compile_part(*arguments))
        except UsageError as error:
            for mistake in error.all or [error]:
                mistake.at = (step, *mistake.at)
                errors.append(mistake)
            if len(errors) >= _MOST_ERRORS:
                break
    if errors:
        raise UsageError.of(errors[:_MOST_ERRORS])
    return compiled


def operators_of(condition: Any) -> Collection[tuple[str, Any]]:
    """Return a condition on a field as operators with operands; a value or list is one operator."""
    if isinstance(condition, Mapping):
        return condition.items()
    return [("$in" if _is_list(condition) else "$eq", condition)]


def without_fields(where: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return a weaker filter that does not mention some fields and matches at least as much.

    Args:
        where: a well-formed filter.
        names: the fields to remove.
    """
    return {
        name: condition
        for name, condition in where.items()
        if not any(field in names for field in _fields(name, condition))
    }


def required_fields(where: Mapping[str, Any], *, negated: bool = False) -> dict[str, bool]:
    """Return the fields that a well-formed filter names, and whether it requires each of them.

    A condition that holds for a missing field, such as `$ne`, only excludes records.

    Args:
        where: the filter.
        negated: whether the filter is part of a `$not`.
    """
    fields: dict[str, bool] = {}
    for name, condition in where.items():
        if name not in _LOGICAL_OPERATORS:
            parts = [{name: _field(name, condition)({}) is negated}]
        else:
            inner = negated is not (name == "$not")
            filters = [condition] if name == "$not" else condition
            parts = [required_fields(part, negated=inner) for part in filters]
        for part in parts:
            for field, required in part.items():
                fields[field] = fields.get(field, False) or required
    return fields


def _fields(name: str, condition: Any) -> Iterator[str]:
    """Yield the fields that an entry of a filter mentions."""
    if name not in _LOGICAL_OPERATORS:
        yield name
        return
    for part in [condition] if name == "$not" else condition:
        for inner in part.items():
            yield from _fields(*inner)


def _entry(name: Any, condition: Any) -> Predicate:
    if not isinstance(name, str):
        raise UsageError(f"the fields of a filter are strings, not {name!r}")
    if name in ("$and", "$or"):
        if not _is_list(condition) or not condition:
            raise UsageError(f"{name} takes a list of at least one filter, not {condition!r}")
        parts = _each(_filter, ((at, (part,)) for at, part in enumerate(condition)))
        if name == "$and":
            return _all(parts)
        return lambda metadata: any(part(metadata) for part in parts)
    if name == "$not":
        inner = _filter(condition)
        return lambda metadata: not inner(metadata)
    if name.startswith("$"):
        raise UsageError(_misplaced(name))
    return _field(name, condition)


def _field(name: str, condition: Any) -> Predicate:
    tests = _tests(name, condition)
    if len(tests) == 1:
        (test,) = tests
        return lambda metadata: test(metadata.get(name, _MISSING))
    return lambda metadata: all(test(metadata.get(name, _MISSING)) for test in tests)


def _tests(name: str, condition: Any) -> list[_Test]:
    operators = operators_of(condition)
    if not isinstance(condition, Mapping):
        return [_operator(name, *operator) for operator in operators]
    tests = _each(_operator, ((key, (name, key, operand)) for key, operand in operators))
    if not tests:
        raise UsageError(f"the filter on {name!r} has no operator; {_known_operators()}")
    return tests


def _operator(name: str, key: Any, operand: Any) -> _Test:
    if key in ("$eq", "$ne"):
        values = _forms(_scalar(name, key, operand))
        return _negated(_equals_one_of(values), negate=key == "$ne")
    if key in ("$in", "$nin"):
        if not _is_list(operand):
            raise UsageError(f"the filter on {name!r}: {key} takes a list, not {operand!r}")
        values = _each(_scalar, ((at, (name, key, value)) for at, value in enumerate(operand)))
        members = [member for value in values for member in _forms(value)]
        return _negated(_equals_one_of(members), negate=key == "$nin")
    if key in _ORDERINGS:
        sign, limit = _bound(key, _comparable(name, key, operand))
        return _compares(_ORDERINGS[sign], limit)
    if key in _AGES:
        if not isinstance(operand, str):
            raise UsageError(f"the filter on {name!r}: {key} takes an age as text; {AGE_FORM}")
        try:
            return _compares(_ORDERINGS[_AGES[key]], date_before(operand))
        except UsageError as error:
            raise UsageError(f"the filter on {name!r}: {key}: {error}") from None
    if key == "$exists":
        if not isinstance(operand, bool):
            raise UsageError(f"the filter on {name!r}: $exists takes true or false: {operand!r}")
        return lambda stored: (stored is not _MISSING) is operand
    if isinstance(key, str) and key.startswith("$"):
        raise UsageError(f"the filter on {name!r}: {_misplaced(key)}")
    raise UsageError(
        f"the filter on {name!r} looks into {key!r}, but only top-level fields can be filtered; "
        f"{_known_operators()}"
    )


def _equals_one_of(values: Iterable[Any]) -> _Test:
    # A set, so that many values take no longer than one. Python's True equals 1; JSON's does not.
    members = {(isinstance(value, bool), value) for value in values}

    def is_known(stored: Any) -> bool:
        return isinstance(stored, Hashable) and (isinstance(stored, bool), stored) in members

    def test(stored: Any) -> bool:
        if isinstance(stored, list | tuple):
            return any(map(is_known, stored))
        return is_known(stored)

    return test


def _compares(order: Callable[[Any, Any], bool], value: Any) -> _Test:
    if is_date(value):
        return lambda stored: is_date(stored) and order(stored, value)
    kind: Any = str if isinstance(value, str) else (int, float)

    def test(stored: Any) -> bool:
        return isinstance(stored, kind) and not isinstance(stored, bool) and order(stored, value)

    return test


def _negated(test: _Test, *, negate: bool) -> _Test:
    return (lambda stored: not test(stored)) if negate else test


def _all(parts: Sequence[Predicate]) -> Predicate:
    if len(parts) == 1:
        return parts[0]
    return lambda metadata: all(part(metadata) for part in parts)


def _scalar(name: str, key: str, value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"the filter on {name!r}: {value!r} is not a number that can be stored")
    if value is None or isinstance(value, str | int | float | datetime.date):
        return value
    raise UsageError(
        f"the filter on {name!r}: {key} takes strings, numbers, dates, true, false and null, "
        f"not {value!r}"
    )


def _comparable(name: str, key: str, value: Any) -> Any:
    value = _scalar(name, key, value)
    if value is None or isinstance(value, bool):
        raise UsageError(
            f"the filter on {name!r}: {key} takes a number, a string or a date, not {value!r}"
        )
    return value


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple | set | frozenset)


def _misplaced(key: str) -> str:
    if key in _LOGICAL_OPERATORS:
        return f"{key} combines whole filters, so write it outside a field: {{{key!r}: …}}"
    if key in _FIELD_OPERATORS:
        return f"{key} applies to a field, so write it under one: {{'field': {{{key!r}: …}}}}"
    operators = (*_FIELD_OPERATORS, *_LOGICAL_OPERATORS)
    return f"unknown operator {key!r}; {did_you_mean(key, operators)}"


def _known_operators() -> str:
    return "known operators: " + ", ".join(sorted(_FIELD_OPERATORS))
