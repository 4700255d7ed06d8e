"""`lorebind trust`: let a project of others run its code and read variables when it is asked."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from lorebind.cli.options import Output, OutputOption
from lorebind_knowledge.errors import ConfigurationError, UsageError


def trust(
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="The project's folder or file.")
    ] = ".",
    remove: Annotated[bool, typer.Option("--remove", help="Trust it no longer.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the folders trusted.")] = False,
    output: OutputOption = Output.table,
) -> None:
    """Show what a project wants to run and to read, and let `ask` and `chat` do so from now on.

    Trust is kept outside of the folder. It ends when the project's YAML says something else, or a
    module that it names does; a project that you made by `init` keeps it.
    """
    from lorebind import trust as trusted
    from lorebind.cli.printing import print_data, print_line
    from lorebind_knowledge.configuration import read_demands

    path = Path(folder)
    if list_:
        result: dict[str, Any] = {"trusted": trusted.trusted_folders()}
        lines = result["trusted"]
    elif remove:
        was = trusted.forget(path.parent if path.is_file() else path)
        result = {"folder": folder, "removed": was}
        lines = [f"{folder} {'is trusted no longer' if was else 'was not trusted'}"]
    else:
        demands = read_demands(folder)
        if demands.all:
            trusted.trust(demands)
        result = {"folder": folder, "demands": demands.all}
        said = "is trusted with this" if demands.all else "asks for nothing that needs trust"
        lines = [*map(str, demands.all), f"{folder} {said}"]
    if output is not Output.table:
        print_data(result, output)
        return
    for line in lines:
        print_line(line)


def check_trusted(path: Path) -> None:
    """Show what a project asks for, and stop where its user has not trusted it with that.

    Raises:
        UsageError: it is not trusted.
        ConfigurationError: it is not valid.
    """
    from lorebind import trust as trusted
    from lorebind.cli.printing import print_line
    from lorebind_knowledge.configuration import load_project, read_demands

    try:
        demands = read_demands(path)
    except ConfigurationError:
        load_project(path)  # says it all, the variables that are not set too
        raise
    if trusted.is_trusted(demands):
        return
    for demand in demands.all:
        print_line(str(demand), stderr=True)
    raise UsageError(
        "this project is not trusted, and asks for what is listed above; read its files, then "
        f"trust it with: lorebind trust {shlex.quote(str(path))}; or for this once with --trust"
    )
