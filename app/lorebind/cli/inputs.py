"""`--input name=value`: what a workflow is given on the command line."""

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
