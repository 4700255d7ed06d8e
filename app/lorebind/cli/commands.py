"""The `lorebind` command: its own commands, imported when they are used, and those of plugins."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import version
from inspect import getdoc
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from lorebind.cli.options import only_here, with_server_option, with_shared_options
from lorebind_config import plugins
from lorebind_config.errors import PluginError

_COMMANDS = {
    "ask": (
        "ask:ask",
        "Answer a question from the documents of a folder or project, with citations.",
    ),
    "chat": ("chat:chat", "Answer questions in turn, each with the previous messages as context."),
    "playground": (
        "playground:playground",
        "Show a folder or project on a page in the browser, until SIGTERM or Ctrl-C.",
    ),
    "trust": (
        "trust:trust",
        "Show which code, variables and hosts a project uses; let `ask` and `chat` use them in "
        "future.",
    ),
    "init": ("init:init", "Write a commented lorebind.yaml and a first workflow."),
    "validate": (
        "checking:validate",
        "Check the project's files, and report each problem with its location and a suggested fix.",
    ),
    "schema": (
        "schema:schema",
        "Print the JSON Schema of the YAML, with which editors complete, explain and check it.",
    ),
    "doctor": (
        "checking:doctor",
        "Try each embedder, vector database, index and model, and suggest a fix for each failure.",
    ),
    "ingest": ("knowledge:ingest", "Update the index to the current content of the sources."),
    "query": ("knowledge:query", "Search knowledge bases and print the passages, best first."),
    "run": ("run:run", "Run a workflow and print its output, with its citations."),
    "serve": ("serving:serve", "Serve the project as a REST API, until SIGTERM or Ctrl-C."),
    "mcp": (
        "serving:mcp",
        "Serve the project to one MCP client over standard input and output.",
    ),
    "worker": (
        "worker:worker",
        "Work on ingests together with other processes, until SIGTERM or Ctrl-C.",
    ),
    "eval": (
        "evaluate:evaluate",
        "Measure the search quality of a knowledge base; a document scores as its best chunk does.",
    ),
    "knowledge": ("knowledge:app", "List, exchange, ingest and query knowledge bases."),
    "bindings": ("bindings:app", "Explain which knowledge is bound where."),
    "workflow": ("workflow:app", "Show workflows and their runs; replay a run."),
    "token": ("token:app", "Manage tokens of `lorebind serve`, their rights and tenants."),
}
"""The module and the name of each command or group, and the first sentence of its help."""
_ON_SERVERS = ("ingest", "query", "run", "knowledge", "bindings", "workflow")
_ONLY_HERE = ("doctor", "eval", "mcp", "token")
"""Commands that use stored data, and cannot use that of a server."""


class Commands(TyperGroup):
    """Lorebind's own commands, and then those of plugins, which are imported when they are used."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # Help and completion need the summaries only.
        for name, (_, summary) in _COMMANDS.items():
            self.add_command(TyperCommand(name, help=summary, rich_markup_mode=None))

    def list_commands(self, ctx: Any) -> list[str]:
        return [*_COMMANDS, *sorted(plugins.offers("commands").keys() - _COMMANDS.keys())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, cmd_name) or _plugin_command(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name in _COMMANDS else command, rest


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        print(f"lorebind {version('lorebind')}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Declare knowledge once, bind it to every agent."""


@cache
def load_command(name: str) -> Any:
    """Import one of Lorebind's own commands or groups, and add the options of every command."""
    module, _, attribute = _COMMANDS[name][0].partition(":")
    loaded = getattr(import_module(f"lorebind.cli.{module}"), attribute)
    group = loaded if isinstance(loaded, typer.Typer) else _group_of(name, loaded, module)
    for info in group.registered_commands:
        command = info.callback
        assert command is not None
        if name in _ON_SERVERS:
            command = with_server_option(command)
        elif name in _ONLY_HERE:
            command = only_here(command)
        info.callback = with_shared_options(command)
    return _click_command(name, group)


def _group_of(name: str, function: Callable[..., Any], module: str = "") -> typer.Typer:
    """Return a group of one command, which `typer` turns into this command."""
    same = f"{getdoc(function)}\n\nThe same as `knowledge {name}`."
    group = typer.Typer(rich_markup_mode=None, add_completion=False)
    group.command(name, help=same if module == "knowledge" else None)(function)
    return group


def _click_command(name: str, group: typer.Typer) -> Any:
    command = typer.main.get_command(group)
    command.name = name
    return command


def _plugin_command(name: str) -> Any:
    """Return the command of a plugin; if it cannot be used, a command that raises the reason."""
    offer = plugins.offered("commands", name)
    if offer is None:
        return None
    try:
        command = plugins.load(offer, ("__call__",))
    except PluginError as error:
        refusal = error

        def command() -> None:
            raise refusal

        command.__doc__ = str(error)
        return _click_command(name, _group_of(name, command))
    if isinstance(command, typer.Typer):
        return _click_command(name, command)
    return _click_command(name, _group_of(name, with_shared_options(command)))
