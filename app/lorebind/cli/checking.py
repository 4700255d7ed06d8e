"""`lorebind validate` and `doctor`: check the files of a project, and everything it needs."""

from __future__ import annotations

from typing import Annotated

import typer

from lorebind.cli.opening import load_config, opened
from lorebind.cli.options import Output, OutputOption, ProjectOption
from lorebind.cli.printing import counted, print_data, print_table
from lorebind.cli.terminal import print_line
from lorebind_config.errors import ConfigurationError


def validate(
    strict: Annotated[
        bool, typer.Option("--strict", help="Treat a variable that is not set as a problem.")
    ] = False,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Check the project's files, and report each problem with its location and a suggested fix.

    No database, API key or extra is needed. A variable that is not set results in a notice.
    """
    try:
        loaded = load_config(project, need_variables=strict)
    except ConfigurationError as error:
        if output is Output.table:
            raise
        print_data({"valid": False, "problems": error.problems, "notices": []}, output)
        raise typer.Exit(2) from None
    from lorebind_config.reading.autoload import misspelled_folders  # as in `load_config`

    notices = [*loaded.unset, *misspelled_folders(loaded.root, loaded.project.autoload)]
    inline = sum(len(workflow.agents) for workflow in loaded.workflows.values())
    declared = {
        "knowledge base": len(loaded.every_knowledge_base()),
        "workflow": len(loaded.workflows),
        "agent": len(loaded.agents) + inline,
    }
    if output is Output.table:
        for notice in notices:
            print_line(f"notice: {notice}", stderr=True)
        counts = ", ".join(counted(number, noun) for noun, number in declared.items())
        print_line(f"{loaded.project.name}: valid ({counts})")
    else:
        print_data({"valid": True, "problems": [], "notices": notices}, output)


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
