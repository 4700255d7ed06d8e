"""The `lorebind` command and its sub-commands."""

from __future__ import annotations

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
    trust,
    validate,
)

app = typer.Typer(
    help="Declare knowledge once, bind it to every agent.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("ask")(ask.ask)
app.command("chat")(chat.chat)
app.command("trust")(trust.trust)
app.command("init")(init.init)
app.command("validate")(validate.validate)
app.command("schema")(schema.schema)
app.command("doctor")(doctor.doctor)
app.command("run")(run.run)
app.command("eval")(evaluate.evaluate)
app.add_typer(knowledge.app, name="knowledge")
app.add_typer(bindings.app, name="bindings")
