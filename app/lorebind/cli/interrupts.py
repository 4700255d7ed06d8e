"""Ctrl-C: one line and exit code 130, whenever it comes."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

INTERRUPTED = 130

_NEXT_RUN = "the next run completes it"
_COMPLETED_BY = ContextVar("_COMPLETED_BY", default=_NEXT_RUN)
_SHOW_CURSOR = "\x1b[?25h"


def completed_by(hint: str) -> None:
    """Tell from now on how to go on after an interrupt, as in `resume it with: ...`.

    If the hint is empty, the next run of the command is what completes the work.
    """
    _COMPLETED_BY.set(hint or _NEXT_RUN)


def _line() -> str:
    return f"lorebind: interrupted; what was finished is kept, and {_COMPLETED_BY.get()}\n"


class Interrupts:
    """Ends the process at Ctrl-C.

    The first one while a command runs raises `KeyboardInterrupt`, so that what is under way is
    ended in order. Every other one ends the process at once: before the command has begun, after
    it has ended, and where ending in order takes the user too long.
    """

    def __init__(self) -> None:
        completed_by("")
        self.came = False
        """Whether a command was interrupted."""
        self._orderly = False
        self._told = False
        self._process = os.getpid()

    def watch(self) -> None:
        """Take over from Python's own handler, for the rest of the process.

        Where that one is not in place, the process was started to ignore Ctrl-C, or is another
        program's.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handle)

    @contextmanager
    def in_order(self) -> Iterator[None]:
        """While the block runs, the first Ctrl-C raises `KeyboardInterrupt`."""
        before = sys.unraisablehook

        def hook(unraisable: sys.UnraisableHookArgs, /) -> None:
            # Raised where nothing can be, as in a finalizer, it would be shown and forgotten.
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
        """Say once that the command was interrupted."""
        if not self._told:
            self._told = True
            sys.stderr.write(_line())

    def _handle(self, _signal: int, _frame: FrameType | None) -> None:
        if self._orderly and not self.came:
            self.came = True
            raise KeyboardInterrupt
        self._leave()

    def _leave(self) -> NoReturn:
        # A process that was forked says nothing: its parent, which gets the same signal, does.
        if os.getpid() == self._process:
            with suppress(OSError):
                line = "" if self._told else _line()
                os.write(2, f"{_SHOW_CURSOR if os.isatty(2) else ''}{line}".encode())
        os._exit(INTERRUPTED)
