"""The process of a command: its output, Ctrl-C, and the exit codes of errors.

All of this is set up before the commands are imported, which takes some tenths of a second.
"""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from lorebind.cli.interrupts import INTERRUPTED, Interrupts
from lorebind.cli.terminal import OutputError, console, guarded_output, one_line
from lorebind_config.errors import (
    ConfigurationError,
    LorebindError,
    NotFoundError,
    NotIngestedError,
    UsageError,
)

_COLLECTED_AFTER = 50_000, 20, 20
"""Thresholds of the garbage collector. With Python's own, each command looks several times through
all that it imports, which is no garbage: a twentieth of the time of a short command."""

FAILED = 1
WRONG_USAGE = 2
BROKEN_PIPE = 141
"""The code that shells report if the reader of a pipe exits, as in `lorebind … | head -1`."""


def main() -> None:
    """Run the command line, and exit with 0 (success), 1 (failure) or 2 (usage, configuration).

    Other exit codes: 3 if a workflow waits for an answer or is paused, 130 for Ctrl-C, and 141 if
    the reader of a pipe has exited. If the output cannot be written, the code is 1.
    """
    interrupts = Interrupts()
    interrupts.watch()
    gc.set_threshold(*_COLLECTED_AFTER)
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
    # Ctrl-C is handled from here on, also while these are imported.
    from lorebind.cli.commands import app

    code = 0
    try:
        with interrupts.in_order(), _showing_downloads():
            app()
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else FAILED
    except OutputError:
        code = FAILED
    except LorebindError as error:
        if not interrupts.came:
            _tell(error)
        code = exit_code(error)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BaseException:  # a bug in Lorebind or in the project's code
        if not interrupts.came:
            _tell_mistake()
        code = FAILED
    # An interrupted command may fail with any error; the interrupt is the reason to report.
    if code and interrupts.came:
        interrupts.tell()
        return INTERRUPTED
    return code


@contextmanager
def _showing_downloads() -> Iterator[None]:
    """Show downloads on standard error within the block, with a bar if it is a terminal."""
    from lorebind_knowledge.hub_models.snapshot import show_on, shown_by

    def show(line: str, size: int) -> AbstractContextManager[Callable[[int], None]]:
        return show_on(console(stderr=True).file, line, size)

    before = shown_by.set(show)
    try:
        yield
    finally:
        shown_by.reset(before)


def _tell(error: LorebindError) -> None:
    if isinstance(error, ConfigurationError):
        # Problems begin with their locations, as editors and terminals expect.
        lines = [str(problem) for problem in error.problems]
    else:
        lines = [f"lorebind: {error}"]
    for line in lines:
        print(one_line(line), file=sys.stderr)


def _tell_mistake() -> None:
    traceback.print_exc()
    print(
        "lorebind: this is a bug in Lorebind, or in code that the project uses; "
        "if it is in Lorebind, please report it with the lines above",
        file=sys.stderr,
    )


def exit_code(error: LorebindError) -> int:
    """Return 2 for mistakes in the call or the configuration, and 1 for all other failures."""
    if isinstance(error, NotIngestedError):
        return FAILED
    if isinstance(error, ConfigurationError | UsageError | NotFoundError):
        return WRONG_USAGE
    return FAILED
