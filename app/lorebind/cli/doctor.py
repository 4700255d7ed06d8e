"""`lorebind doctor`: check that everything a project needs exists and answers."""

from __future__ import annotations

import typer

from lorebind.cli.opening import load_config, opened
from lorebind.cli.options import Output, OutputOption, ProjectOption
from lorebind.cli.printing import print_data, print_table


def doctor(
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
    deep: bool = typer.Option(
        False, "--deep", help="Check every single vector, instead of their number and a sample."
    ),
) -> None:
    """Try each embedder, vector database, index and model, and suggest a fix for each failure."""
    from lorebind.doctor import without_unusable  # with NumPy, which `--help` does not need

    with opened(without_unusable(load_config(project))) as loaded:
        findings = loaded.doctor(deep=deep)
    if output is Output.table:
        rows = ((finding.part, finding.status, finding.detail) for finding in findings)
        print_table(("part", "status", "details"), rows)
    else:
        print_data({"findings": findings}, output)
    if any(finding.status == "failed" for finding in findings):
        raise typer.Exit(1)
