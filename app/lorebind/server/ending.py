"""How a server or a worker ends: by signals, and while third-party code hangs."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_INTERRUPTED = 130

LAST_SECONDS = 5
"""Seconds for requests to report that they were interrupted; then, for third-party threads to
end."""


class Ending:
    """Ends the process even if third-party code hangs, because Python would wait for its thread."""

    def __init__(self) -> None:
        self.code = 1
        """The exit code; 0 as soon as all of Lorebind's data is stored and closed."""

    def within(self, seconds: float) -> None:
        """End the process after some seconds, if it has not ended by then."""
        timer = threading.Timer(seconds, lambda: os._exit(self.code))
        timer.daemon = True
        timer.start()


class Signals:
    """Handles SIGTERM and SIGINT: the first stops the server, a second SIGINT ends the process.

    It stays active until the end, because the process waits a while for third-party threads.
    """

    def __init__(self) -> None:
        self.came = False
        """Whether the server has to stop."""

    @contextmanager
    def watched(self) -> Iterator[Signals]:
        """Handle the signals within the block."""
        handled = (signal.SIGINT, signal.SIGTERM)
        before = {which: signal.signal(which, self._handle) for which in handled}
        try:
            yield self
        finally:
            for which, handler in before.items():
                signal.signal(which, handler)

    def _handle(self, which: int, frame: FrameType | None) -> None:
        if self.came and which == signal.SIGINT:
            # `sys.exit` would wait for the threads of code that hangs.
            os._exit(_INTERRUPTED)
        self.came = True
