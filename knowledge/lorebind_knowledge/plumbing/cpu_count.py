"""The number of processors that this process can use."""

from __future__ import annotations

import os


def usable_processors() -> int:
    """Return the number of usable processors; more threads than that wait for each other."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
