"""The command line. A command's module is imported when the command is used, so `--help` is fast.

Only what some of the commands in a module do not need, and what is slow to import, is imported
within their functions.
"""

from __future__ import annotations

from lorebind.cli.entry import main

__all__ = ["main"]
