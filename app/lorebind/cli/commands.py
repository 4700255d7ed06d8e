"""The `lorebind` command: its sub-commands, and what an error or Ctrl-C becomes."""

from __future__ import annotations

import sys

import typer

from lorebind.cli import (
    ask,
    bindings,
    doctor,
    evaluate,
    init,
    knowledge,
    run,
    schema,
    trust,
    validate,
)
from lorebind_knowledge.errors import (
    ConfigurationError,
    LorebindError,
    NotFoundError,
    NotIngestedError,
    UsageError,
)

FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130

app = typer.Typer(
    help="Declare knowledge once, bind it to every agent.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("ask")(ask.ask)
app.command("trust")(trust.trust)
app.command("init")(init.init)
app.command("validate")(validate.validate)
app.command("schema")(schema.schema)
app.command("doctor")(doctor.doctor)
app.command("run")(run.run)
app.command("eval")(evaluate.evaluate)
app.add_typer(knowledge.app, name="knowledge")
app.add_typer(bindings.app, name="bindings")


def main() -> None:
    """Run the command line; exit 0 fine, 1 failed, 2 wrong usage or configuration."""
    try:
        app()
    except LorebindError as error:
        # Problems begin with their places, as editors and terminals expect of them.
        name = "" if isinstance(error, ConfigurationError) else "lorebind: "
        print(f"{name}{error}", file=sys.stderr)
        sys.exit(exit_code(error))
    except SystemExit as done:
        if done.code == INTERRUPTED:  # what typer makes of Ctrl-C
            print(
                "lorebind: interrupted; what was finished is kept, and the next run completes it",
                file=sys.stderr,
            )
        raise


def exit_code(error: LorebindError) -> int:
    """2 for what the caller wrote, 1 for what went wrong although it was right."""
    if isinstance(error, NotIngestedError):
        return FAILED
    if isinstance(error, ConfigurationError | UsageError | NotFoundError):
        return WRONG_USAGE
    return FAILED
