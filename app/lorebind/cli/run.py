"""`lorebind run`: a workflow, from its inputs to its outputs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorebind.cli.options import Output, OutputOption, ProjectOption
from lorebind_knowledge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.declarations import WorkflowDeclaration


def run(
    workflow: Annotated[str, typer.Argument(help="The id of the workflow.")],
    inputs: Annotated[
        list[str] | None, typer.Option("--input", "-i", metavar="NAME=VALUE", help="An input.")
    ] = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Run a workflow and print what it gives, with its citations."""
    from lorebind.cli.printing import console, print_data
    from lorebind.project import Project

    with Project.load(project) as loaded:
        result = loaded.run(workflow, _values(inputs or [], loaded.loaded.workflow(workflow)))
    if output is not Output.table:
        print_data(result, output)
        return
    out = console()
    named = result.output if isinstance(result.output, dict) else {"output": result.output}
    for name, value in named.items():
        out.rule(name, align="left")
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        out.print(text, soft_wrap=True)
    for name, task in result.tasks.items():
        out.rule(f"Sources of {name} ({task.verdict})", align="left")
        for citation in task.citations:
            out.print(f"{citation.marker} {citation.label}", soft_wrap=True)
        for marker in task.unknown_markers:
            out.print(f"warning: {marker} in the output belongs to no passage")
        usage = result.usage[name]
        exactness = "exact" if usage["exact"] else "estimated"
        out.print(f"Prompt: {usage['prompt_tokens']} tokens ({usage['tokenizer']}, {exactness})")


def _values(written: Sequence[str], workflow: WorkflowDeclaration) -> dict[str, Any]:
    """`name=value` pairs; values of inputs that are no strings are read as JSON."""
    values: dict[str, Any] = {}
    for pair in written:
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
