"""Run `lorebind` and send Ctrl-C at its Nth function call, and optionally a second time later.

interrupted.py N MILLISECONDS ARGUMENT…
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

from lorebind.cli import main

_at, _again = int(sys.argv[1]), float(sys.argv[2]) / 1000
_calls = 0


def _press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def _count(frame: FrameType, event: str, _argument: Any) -> None:
    global _calls
    # Count from where the command handles Ctrl-C: before that, Python itself is starting.
    if event == "call" and (_calls or frame.f_code.co_name == "_run"):
        _calls += 1
        if _calls == _at:
            sys.setprofile(None)
            if _again:
                later = threading.Timer(_again, _press)
                later.daemon = True
                later.start()
            _press()


sys.argv[1:] = sys.argv[3:]
sys.setprofile(_count)
main()
