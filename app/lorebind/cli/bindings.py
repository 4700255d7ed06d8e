"""`lorebind bindings`: show which knowledge is bound where, and which declaration binds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import BaseModel

from lorebind.cli.options import Output, OutputOption, ProjectOption, command_group
from lorebind.cli.printing import print_data, print_table
from lorebind.cli.target import target_declarations
from lorebind.cli.terminal import console, print_line

if TYPE_CHECKING:
    from lorebind_bindings import ResolvedBinding

app = command_group("Explain which knowledge is bound where.")


@app.callback()
def bindings() -> None:
    """Explain which knowledge is bound where."""


@app.command()
def explain(
    workflow: Annotated[str | None, typer.Option("--workflow", help="A workflow.")] = None,
    task: Annotated[str | None, typer.Option("--task", help="A task of the workflow.")] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="An agent. Default: the agent of the task.")
    ] = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Show every setting in effect, with the scope, file and line that set it."""
    with target_declarations(project) as loaded:
        resolved = loaded.explain(workflow=workflow, task=task, agent=agent)
    scope = resolved.unbound_by
    if output is not Output.table:
        print_data({"bindings": resolved, "unbound_by": scope}, output)
        return
    if not resolved:
        print_line("Nothing is bound here.")
    if scope is not None:
        print_line(f"{scope.scope} removes all bindings of outer scopes: {scope.location}")
    for binding in resolved:
        print_binding(binding)


def print_binding(binding: ResolvedBinding) -> None:
    """Print every setting with the declaration that set it, and when a match is weak."""
    console().rule(binding.id, align="left")
    print_table(
        ("setting", "value", "set by", "where", "overriding"),
        (
            (
                name,
                _cell(getattr(binding.settings, name)),
                place.scope,
                place.location,
                ", ".join(place.overrode),
            )
            for name, place in binding.provenance.items()
        ),
        long=("value",),
    )
    print_line(_level(binding))


def _level(binding: ResolvedBinding) -> str:
    """Describe the lowest relevance at which a match is not weak."""
    if binding.weak_below is None:
        return (
            f"No match is weak: no weak_below is set for the relevance, which is the score "
            f"{binding.settings.relevance_is!r}."
        )
    level = f"{binding.weak_below:g} (weak_below)"
    return f"A match is weak if its best passage has a relevance below {level}."


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, BaseModel):  # a nested declaration, shown as written in YAML
        value = value.model_dump(mode="json")
        if isinstance(value, dict):
            return ", ".join(f"{name}: {_inner(part)}" for name, part in value.items())
    if value and isinstance(value, dict):
        return _inner(value)
    return str(value)


def _inner(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name}: {_inner(part)}' for name, part in value.items())} }}"
    return _cell(value)
