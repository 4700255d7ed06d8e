"""How a process ends while third-party code hangs."""

from __future__ import annotations

import os
import threading

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
