"""`--input name=value`, `--answer task=value`: what a workflow is given on the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def input_values(
    written: Sequence[str] | None, inputs: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """`name=value` pairs; values of inputs that are no strings are read as JSON.

    Args:
        written: the pairs.
        inputs: what the workflow takes, see `Project.workflow_inputs`.
    """
    values: dict[str, Any] = {}
    for pair in written or ():
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--input {pair!r} is not of the form name=value")
        kind = inputs.get(name, {}).get("type", "string")
        if kind == "string":
            values[name] = value
            continue
        try:
            values[name] = json.loads(value)
        except json.JSONDecodeError:
            raise UsageError(
                f"input {name!r} is of type {kind}; {value!r} is not JSON for one"
            ) from None
    return values


def answer_values(written: Sequence[str] | None) -> dict[str, Any]:
    """`task=value` pairs; a value that is JSON is read as such, and any other is text.

    Raises:
        UsageError: a pair is of another form, or a task is answered twice.
    """
    values: dict[str, Any] = {}
    for pair in written or ():
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(
                f"--answer {pair!r} is not of the form task=value, as in --answer approve=true"
            )
        if name in values:
            raise UsageError(f"--answer {name!r} is given twice; keep one of them")
        values[name] = _json_or_text(value)
    return values


def _json_or_text(value: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        return json.loads(value, parse_constant=refuse)  # NaN is no JSON
    except (ValueError, RecursionError):
        return value
