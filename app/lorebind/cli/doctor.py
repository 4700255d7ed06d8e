"""`lorebind doctor`: whether everything that a project needs is there and answers."""

from __future__ import annotations

import typer

from lorebind.cli.options import Output, OutputOption, ProjectOption


def doctor(
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
    deep: bool = typer.Option(
        False, "--deep", help="Look for every single vector, not only for their number and some."
    ),
) -> None:
    """Try each embedder, vector database, index and model, and say the repair of what fails."""
    from lorebind.cli.opening import open_project
    from lorebind.cli.printing import print_data, print_table

    with open_project(project) as loaded:
        findings = loaded.doctor(deep=deep)
    if output is Output.table:
        rows = ((found.part, found.status, found.detail) for found in findings)
        print_table(("part", "status", "what was found"), rows)
    else:
        print_data({"findings": findings}, output)
    if any(found.status == "failed" for found in findings):
        raise typer.Exit(1)
