"""Write the records of the loggers below `lorebind` to standard error."""

from __future__ import annotations

import json
import logging
import sys
import threading
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

Format: TypeAlias = Literal["json", "text"]
Level: TypeAlias = Literal["debug", "info", "warning", "error"]


def write_records(form: Format, level: Level = "info") -> None:
    """Write the records of all loggers below `lorebind` to standard error.

    They also go to the program's own handlers, if there are any. A later call replaces the
    settings.

    Args:
        form: `json` for one object per line, `text` for people.
        level: the lowest level of records to write.
    """
    logger = logging.getLogger("lorebind")
    with _writing:
        ours = [handler for handler in logger.handlers if isinstance(handler, _ToStandardError)]
        handler = ours[0] if ours else _ToStandardError()
        text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
        handler.setFormatter(_JsonLines() if form == "json" else text)
        set_level(level)
        logger.addHandler(handler)


def set_level(level: Level) -> None:
    """Set the lowest level of records that the loggers below `lorebind` create."""
    logging.getLogger("lorebind").setLevel(level.upper())


_writing = threading.Lock()


class _ToStandardError(logging.Handler):
    """Writes to the current `sys.stderr`, even if it was replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
        except Exception:  # like the handlers of `logging`: logging must not break the program
            self.handleError(record)


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        given = {name: value for name, value in vars(record).items() if name not in _OF_EVERY}
        line |= given if "event" in given else {"message": record.getMessage(), **given}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


_OF_EVERY = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
"""The attributes that every record has; all others are fields of the event."""
