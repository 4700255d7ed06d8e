"""The command line. Commands import what they need when they run: `--help` stays fast."""

from __future__ import annotations

from lorebind.cli.entry import main

__all__ = ["main"]
