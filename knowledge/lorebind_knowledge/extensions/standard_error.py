"""Write the records of the loggers below `lorebind` to standard error."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, TypeAlias

Format: TypeAlias = Literal["json", "text"]
Level: TypeAlias = Literal["debug", "info", "warning", "error"]


def write_records(form: Format, level: Level = "info") -> Callable[[], None]:
    """Write the records of all loggers below `lorebind` to standard error.

    They also go to the program's own handlers, if there are any. The settings of the latest call
    are in effect.

    Args:
        form: `json` for one object per line, `text` for people.
        level: the lowest level of records to write.

    Returns:
        A function that ends the effect of this call. After the last one, the logger has the level
        that it had before the first call.
    """
    global _level_before
    call = object()
    with _writing:
        if not _calls:
            _level_before = _LOGGER.level
        _calls[call] = form, level
        _apply()
    return partial(_end, call)


def _end(call: object) -> None:
    with _writing:
        if _calls.pop(call, None):
            _apply()


def _apply() -> None:
    """Set up the logger as the latest call wants it."""
    if not _calls:
        _LOGGER.removeHandler(_HANDLER)
        _LOGGER.setLevel(_level_before)
        return
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    form, level = next(reversed(_calls.values()))
    _HANDLER.setFormatter(_JsonLines() if form == "json" else text)
    set_level(level)
    _LOGGER.addHandler(_HANDLER)


def set_level(level: Level) -> None:
    """Set the lowest level of records that the loggers below `lorebind` create."""
    _LOGGER.setLevel(level.upper())


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
        fields = {name: value for name, value in vars(record).items() if name not in _OF_EVERY}
        line |= fields if "event" in fields else {"message": record.getMessage(), **fields}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


_LOGGER = logging.getLogger("lorebind")
_HANDLER = _ToStandardError()
_writing = threading.Lock()
_calls: dict[object, tuple[Format, Level]] = {}
"""The settings of the calls that have not been ended, the latest last."""
_level_before = logging.NOTSET

_OF_EVERY = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
"""The attributes that every record has; all others are fields of the event."""
