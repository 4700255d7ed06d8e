"""`lorebind trust`: allow a project from others to run its code and read variables for `ask`."""

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
    remove: Annotated[bool, typer.Option("--remove", help="Stop trusting the project.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the trusted folders.")] = False,
    output: OutputOption = Output.table,
) -> None:
    """Show which code and variables a project uses, and let `ask` and `chat` use them from now on.

    Trust is stored outside of the folder. It ends if the project's YAML or a module that it names
    changes; a project that you created with `init` stays trusted.
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
        lines = [f"{folder} {'is no longer trusted' if was else 'was not trusted'}"]
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
    """Print the demands of a project and raise an error, unless its user trusts it.

    Raises:
        UsageError: the project is not trusted.
        ConfigurationError: the project is not valid.
    """
    from lorebind import trust as trusted
    from lorebind.cli.printing import print_line
    from lorebind_knowledge.configuration import load_project, read_demands

    try:
        demands = read_demands(path)
    except ConfigurationError:
        load_project(path)  # reports all problems, including variables that are not set
        raise
    if trusted.is_trusted(demands):
        return
    for demand in demands.all:
        print_line(str(demand), stderr=True)
    raise UsageError(
        "this project is not trusted, and demands the permissions listed above; read its files, "
        f"then trust it with: lorebind trust {shlex.quote(str(path))}; or for this run with --trust"
    )
