"""The processors of this machine that this process may use."""

from __future__ import annotations

import os


def usable_processors() -> int:
    """How many there are; more threads than those make each other wait."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
