"""Run programs, return what they print, and measure what they use."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any


def run_program(
    command: Sequence[str | Path], *, timeout: float = 120, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program, and return its exit code and its captured output."""
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, check=check, **options
    )


def connections(process: int, port: int) -> int:
    """Return the number of connections of a process to a port of this machine."""
    remote = f"0100007F:{port:04X}"
    table = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    sockets = {f"socket:[{row[9]}]" for row in table if row[2] == remote and row[3] == "01"}
    count = 0
    for file in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):
            count += str(file.readlink()) in sockets
    return count


def memory_peak(process: int) -> int:
    """Return the most memory that a process has had at any time, in kB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])
