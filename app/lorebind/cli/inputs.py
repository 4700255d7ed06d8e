"""`--input name=value`, `--answer task=value`: what a workflow is given on the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.declarations import WorkflowDeclaration


def input_values(written: Sequence[str] | None, workflow: WorkflowDeclaration) -> dict[str, Any]:
    """`name=value` pairs; values of inputs that are no strings are read as JSON."""
    values: dict[str, Any] = {}
    for pair in written or ():
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--input {pair!r} is not of the form name=value")
        declared = workflow.input.get(name)
        if declared is None or declared.type == "string":
            values[name] = value
            continue
        try:
            values[name] = json.loads(value)
        except json.JSONDecodeError:
            raise UsageError(
                f"input {name!r} is of type {declared.type}; {value!r} is not JSON for one"
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
