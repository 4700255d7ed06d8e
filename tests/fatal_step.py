"""Processes that kill themselves at a given step of Lorebind's own code.

A step is a call from or into one of our packages, including its return. There is one before and
after every statement of the ledger and the store, in any thread. A kill is therefore as likely in
a transaction as during embedding, and at the same steps on fast and slow machines.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from itertools import count
from types import CodeType, FrameType
from typing import Any

import lorebind
import lorebind_bindings
import lorebind_config
import lorebind_knowledge
import lorebind_prompts

OURS = tuple(
    os.path.join(os.path.dirname(package.__file__), "")
    for package in (
        lorebind,
        lorebind_bindings,
        lorebind_prompts,
        lorebind_knowledge,
        lorebind_config,
    )
)
"""The folders of our packages, wherever they are installed. The names of their parent folders do
not tell whose code it is."""


class Steps:
    """Counts the steps of this process from now on, in this thread and in threads started later."""

    def __init__(self) -> None:
        self._fatal = 0
        self._steps = count(1)
        self._ours: dict[CodeType, bool] = {}
        threading.setprofile(self._step)
        sys.setprofile(self._step)

    def kill_at(self, step: int) -> None:
        """Kill the process at a step, counted from now and starting at 1; 0 means never."""
        self._fatal, self._steps = step, count(1)

    def end(self) -> int:
        """Stop counting in this thread, and return the number of steps."""
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # as its documentation says
        return next(self._steps) - 1

    def _step(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        ours = self._ours.get(code)
        if ours is None:
            ours = self._ours[code] = code.co_filename.startswith(OURS)
        if ours and next(self._steps) == self._fatal:
            os.kill(os.getpid(), signal.SIGKILL)
