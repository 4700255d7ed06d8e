"""The command line. Commands import their dependencies when they run, so `--help` is fast."""

from __future__ import annotations

from lorebind.cli.entry import main

__all__ = ["main"]
