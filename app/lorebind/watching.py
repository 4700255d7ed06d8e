"""Watch the files of a project for changes."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorebind_config.project_files import DATA_FOLDER

if TYPE_CHECKING:
    from lorebind_config.reading.loaded import LoadedProject

_QUIET_MILLISECONDS = 300
"""Milliseconds without a change before the ingest: editors write a file in several steps."""


class WatchedFiles:
    """Checks whether a change may concern a document of a project.

    It does not if the file belongs to a tool, if it is hidden and no source names it, or if it is
    the log that this process writes.
    """

    def __init__(self, config: LoadedProject) -> None:
        from watchfiles import DefaultFilter

        self.root = Path(config.root).resolve()
        self._others = DefaultFilter()
        self._logs = [status for stream in (1, 2) if (status := _status(stream)) is not None]
        self.use(config)

    def use(self, config: LoadedProject) -> None:
        """Apply the sources that the project declares now."""
        # A template may stand for any name.
        parts = [
            part
            for kb, _ in config.every_knowledge_base()
            for source in kb.sources
            for pattern in getattr(source, "patterns", ())
            for part in (".*" if "{{" in pattern else pattern).split("/")
        ]
        self._named_hidden = [part for part in parts if part.startswith(".")]

    def __call__(self, change: Any, path: str) -> bool:
        parts = Path(path).relative_to(self.root).parts
        hidden = [part for part in parts if part.startswith(".") and part != ".gitignore"]
        is_named = all(any(fnmatch(part, name) for name in self._named_hidden) for part in hidden)
        if parts != (".env",) and (DATA_FOLDER in hidden or not is_named):
            return False
        if (status := _status(path)) and any(os.path.samestat(status, log) for log in self._logs):
            return False
        return self._others(change, path)

    @property
    def options(self) -> dict[str, Any]:
        """The arguments for `watchfiles`, which then yields an empty set twice a second."""
        return {
            "watch_filter": self,
            "debounce": 10 * _QUIET_MILLISECONDS,  # if files change all the time
            "step": _QUIET_MILLISECONDS,
            "rust_timeout": 500,
            "yield_on_timeout": True,
        }


def _status(file: int | str) -> os.stat_result | None:
    try:
        return os.stat(file)
    except OSError:
        return None
