"""Ctrl-C: one line and exit code 130, at any time."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130

_NEXT_RUN = "the next run completes it"
_COMPLETED_BY = ContextVar("_COMPLETED_BY", default=_NEXT_RUN)
_SHOW_CURSOR = "\x1b[?25h"


def completed_by(hint: str) -> None:
    """Set how the user can continue after an interrupt, as in `resume it with: ...`.

    If the hint is empty, running the command again completes the work.
    """
    _COMPLETED_BY.set(hint or _NEXT_RUN)


def _line() -> str:
    return f"lorebind: interrupted; finished work is kept, and {_COMPLETED_BY.get()}\n"


class Interrupts:
    """Ends the process at Ctrl-C.

    The first Ctrl-C during a command raises `KeyboardInterrupt`, so that the command can clean up.
    Any other ends the process immediately: before the command starts, after it has ended, or a
    second one while it cleans up.
    """

    def __init__(self) -> None:
        completed_by("")
        self.came = False
        """Whether a command was interrupted."""
        self._orderly = False
        self._told = False
        self._process = os.getpid()

    def watch(self) -> None:
        """Replace Python's own handler for the rest of the process.

        If another handler is installed, the process was started to ignore Ctrl-C, or belongs to
        another program. That handler stays.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handle)

    @contextmanager
    def in_order(self) -> Iterator[None]:
        """Let the first Ctrl-C within the block raise `KeyboardInterrupt`."""
        before = sys.unraisablehook

        def hook(unraisable: sys.UnraisableHookArgs, /) -> None:
            # Python only prints an exception that is raised in a finalizer, so exit from here.
            if isinstance(unraisable.exc_value, KeyboardInterrupt):
                self._leave()
            before(unraisable)

        sys.unraisablehook = hook
        self._orderly = True
        try:
            yield
        finally:
            self._orderly = False
            sys.unraisablehook = before

    def tell(self) -> None:
        """Print once that the command was interrupted."""
        if not self._told:
            self._told = True
            sys.stderr.write(_line())

    def _handle(self, _signal: int, _frame: FrameType | None) -> None:
        if self._orderly and not self.came:
            self.came = True
            raise KeyboardInterrupt
        self._leave()

    def _leave(self) -> NoReturn:
        # A forked process prints nothing: its parent gets the same signal and prints the line.
        if os.getpid() == self._process:
            with suppress(OSError):
                # Not to `sys.stderr`, in which the signal may have interrupted another write.
                line = "" if self._told else _line()
                os.write(2, f"{_SHOW_CURSOR if os.isatty(2) else ''}{line}".encode())
        os._exit(INTERRUPTED)
