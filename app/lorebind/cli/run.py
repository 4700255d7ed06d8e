"""`lorebind run`: a workflow, from its inputs to its outputs."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from lorebind.cli.inputs import input_values
from lorebind.cli.options import InputsOption, Output, OutputOption, ProjectOption


def run(
    workflow: Annotated[str, typer.Argument(help="The id of the workflow.")],
    inputs: InputsOption = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Run a workflow and print what it gives, with its citations."""
    from lorebind.cli.opening import open_project
    from lorebind.cli.printing import console, print_data, print_line

    with open_project(project) as loaded:
        result = loaded.run(workflow, input_values(inputs, loaded.config.workflow(workflow)))
    if output is not Output.table:
        print_data(result, output)
        return
    out = console()
    named = result.output if isinstance(result.output, dict) else {"output": result.output}
    for name, value in named.items():
        out.rule(name, align="left")
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        print(text)
    for name, task in result.tasks.items():
        out.rule(f"Sources of {name} ({task.verdict})", align="left")
        for citation in task.citations:
            print_line(f"{citation.marker} {citation.label}")
        for marker in task.unknown_markers:
            print_line(f"warning: {marker} in the output belongs to no passage")
        for usage in _prompts(result.usage[name]):
            exactness = "exact" if usage["exact"] else "estimated"
            tokens = f"{usage['prompt_tokens']} tokens ({usage['tokenizer']}, {exactness})"
            print_line(f"Prompt: {tokens}")


def _prompts(usage: dict[str, Any]) -> list[dict[str, Any]]:
    """What each prompt of a task used; a task that runs another workflow has several."""
    if "prompt_tokens" in usage:
        return [usage]
    return [prompt for inner in usage.values() for prompt in _prompts(inner)]
