"""`--input name=value`, `--answer task=value` and `--filter key=value` on the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lorebind_config.errors import NotFoundError, UsageError, did_you_mean

if TYPE_CHECKING:
    from lorebind.cli.target import AnyProject


def declared_inputs(project: AnyProject, workflow: str) -> dict[str, dict[str, Any]]:
    """Return the inputs of a workflow by name, each with its `type` and whether `required`.

    Raises:
        NotFoundError: no such workflow.
    """
    inputs: dict[str, dict[str, dict[str, Any]]] = {
        declared["id"]: declared["inputs"] for declared in project.workflows()
    }
    if workflow not in inputs:
        raise NotFoundError(f"there is no workflow {workflow!r}; {did_you_mean(workflow, inputs)}")
    return inputs[workflow]


def input_values(
    written: Sequence[str] | None, inputs: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Parse `name=value` pairs; values of inputs that are not strings are read as JSON.

    Args:
        written: the pairs.
        inputs: the workflow's inputs, see `declared_inputs`.
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
        except (ValueError, RecursionError):  # also integers of more digits than Python reads
            raise UsageError(
                f"input {name!r} is of type {kind}; {value!r} is not JSON of this type"
            ) from None
    return values


def answer_values(written: Sequence[str] | None) -> dict[str, Any]:
    """Parse `task=value` pairs; a value that is valid JSON is read as JSON, any other as text.

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
        return json.loads(value, parse_constant=refuse)  # NaN is not JSON
    except (ValueError, RecursionError):
        return value


def filter_values(written: list[str]) -> dict[str, Any]:
    """Parse `key=value` pairs; a value that is valid JSON is read as JSON, any other as text."""
    filters: dict[str, Any] = {}
    for pair in written:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"--filter {pair!r} is not of the form key=value")
        if key in filters:
            example = f'{key}={{"$in": [1, 2]}}'
            raise UsageError(
                f"--filter has {key!r} twice; write one condition, such as '{example}'"
            )
        try:
            filters[key] = json.loads(value)
        except (ValueError, RecursionError):
            filters[key] = value
    return filters
