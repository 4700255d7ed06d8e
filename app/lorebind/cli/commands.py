"""The `lorebind` command and its subcommands."""

from __future__ import annotations

from inspect import getdoc
from typing import Annotated

import typer

from lorebind.cli import (
    ask,
    bindings,
    chat,
    doctor,
    evaluate,
    init,
    knowledge,
    run,
    schema,
    serve,
    token,
    trust,
    validate,
    workflow,
)
from lorebind.cli.plugin_commands import Commands
from lorebind.cli.server_option import only_here, with_server_option
from lorebind.cli.shared_options import with_shared_options

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

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


app.command("ask")(ask.ask)
app.command("chat")(chat.chat)
app.command("trust")(trust.trust)
app.command("init")(init.init)
app.command("validate")(validate.validate)
app.command("schema")(schema.schema)
app.command("doctor")(doctor.doctor)
for short in (knowledge.ingest, knowledge.query):
    same = f"{getdoc(short)}\n\nThe same as `knowledge {short.__name__}`."
    app.command(short.__name__, help=same)(short)
app.command("run")(run.run)
app.command("serve")(serve.serve)
app.command("eval")(evaluate.evaluate)
app.add_typer(knowledge.app, name="knowledge")
app.add_typer(bindings.app, name="bindings")
app.add_typer(workflow.app, name="workflow")
app.add_typer(token.app, name="token")

_AT_A_SERVER = (knowledge.ingest, knowledge.query, run.run)
"""Top-level commands that support `--server`."""
_ONLY_HERE = (doctor.doctor, evaluate.evaluate)
"""Commands that use stored data, and cannot use that of a server."""

for one in (app, knowledge.app, bindings.app, workflow.app, token.app):
    for command in one.registered_commands:
        assert command.callback
        callback = command.callback
        if one in (knowledge.app, bindings.app, workflow.app) or callback in _AT_A_SERVER:
            callback = with_server_option(callback)
        elif one is token.app or callback in _ONLY_HERE:
            callback = only_here(callback)
        command.callback = with_shared_options(callback)
