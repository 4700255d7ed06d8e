"""The process of a command: its output, Ctrl-C, and what an error becomes.

All this is in place before the commands are imported, which takes some tenths of a second.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from lorebind.cli.interrupts import INTERRUPTED, Interrupts
from lorebind.cli.terminal import OutputError, guarded_output, one_line

if TYPE_CHECKING:
    from lorebind_knowledge.errors import LorebindError

FAILED = 1
WRONG_USAGE = 2
BROKEN_PIPE = 141
"""What shells report of a program whose reader went away, as in `lorebind … | head -1`."""


def main() -> None:
    """Run the command line; exit 0 fine, 1 failed, 2 wrong usage or configuration.

    3 is a workflow that waits for an answer or is paused, 130 is Ctrl-C, 141 a pipe that nobody
    reads any more. Output that could not be written is 1.
    """
    interrupts = Interrupts()
    interrupts.watch()
    with guarded_output() as output:
        code = _run(interrupts)
        lost = output.end()
        if lost is not None and code != INTERRUPTED:
            code = BROKEN_PIPE if isinstance(lost, BrokenPipeError) else code or FAILED
            if code != BROKEN_PIPE:
                reason = lost.strerror or lost
                print(one_line(f"lorebind: cannot write the output: {reason}"), file=sys.stderr)
    sys.exit(code)


def _run(interrupts: Interrupts) -> int:
    from lorebind.cli.commands import app
    from lorebind.cli.progress import showing_downloads
    from lorebind_knowledge.errors import LorebindError

    code = 0
    try:
        with interrupts.in_order(), showing_downloads():
            app()
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else FAILED
    except OutputError:
        code = FAILED
    except LorebindError as error:
        if not interrupts.came:
            _tell(error)
        code = exit_code(error)
    except Exception:  # a mistake of ours, or of the project's code
        if not interrupts.came:
            _tell_mistake()
        code = FAILED
    except KeyboardInterrupt:
        code = INTERRUPTED
    # What it broke off may have failed in any way.
    if code and interrupts.came:
        interrupts.tell()
        return INTERRUPTED
    return code


def _tell(error: LorebindError) -> None:
    from lorebind_knowledge.errors import ConfigurationError

    if isinstance(error, ConfigurationError):
        # Problems begin with their places, as editors and terminals expect of them.
        lines = [str(problem) for problem in error.problems]
    else:
        lines = [f"lorebind: {error}"]
    for line in lines:
        print(one_line(line), file=sys.stderr)


def _tell_mistake() -> None:
    import traceback

    traceback.print_exc()
    print(
        "lorebind: this is a mistake in Lorebind, or in code that the project names; "
        "if it is Lorebind's, please report it with the lines above",
        file=sys.stderr,
    )


def exit_code(error: LorebindError) -> int:
    """2 for what the caller wrote, 1 for what went wrong although it was right."""
    from lorebind_knowledge.errors import (
        ConfigurationError,
        NotFoundError,
        NotIngestedError,
        UsageError,
    )

    if isinstance(error, NotIngestedError):
        return FAILED
    if isinstance(error, ConfigurationError | UsageError | NotFoundError):
        return WRONG_USAGE
    return FAILED
