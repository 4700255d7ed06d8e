"""The extension `logging`: a record of Python's logging for each event, also to standard error."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial, partialmethod
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import Field

from lorebind_config.declarations.wrappers import ExtensionBase
from lorebind_knowledge.events import Event, Extension

if TYPE_CHECKING:
    from lorebind_config.reading.make_part import PartEnvironment

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
_writing = threading.Lock()  # the calls and what the logger is set to change together
_calls: dict[object, tuple[Format, Level]] = {}
"""The settings of the calls that have not been ended, the latest last."""
_level_before = logging.NOTSET

_OF_EVERY = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
"""The attributes that every record has; all others are fields of the event."""


class LoggingExtension(ExtensionBase):
    """A record of Python's `logging` for each event, to the loggers below `lorebind`."""

    provider: Literal["logging"] = Field(description="Writes log records.")
    format: Format | None = Field(
        None,
        description="Write the records of all loggers below `lorebind` to standard error, as lines "
        "of JSON or of text. By default the program's own logging configuration decides.",
    )
    level: Level = Field(
        "info", description="The lowest level of records to write, if `format` is set."
    )

    @property
    def written_to(self) -> str:
        return "the loggers below 'lorebind'"


Declaration = LoggingExtension


def make(declaration: LoggingExtension, environment: PartEnvironment) -> EventLog:
    if declaration.format is None:
        return EventLog()
    return _WrittenLog(write_records(declaration.format, declaration.level))


class EventLog(Extension):
    """Logs each event, with its numbers and names as fields of the record.

    Loggers are `lorebind.ingest`, `lorebind.retrieval`, `lorebind.embedder`, `lorebind.workflow`,
    `lorebind.model` and `lorebind.project`.
    With `content`, records also hold the texts, and the messages of errors, which may quote them.
    """

    def _log(self, hook: str, event: Event) -> None:
        logger, level = _RECORDS[hook]
        status = getattr(event.data.get("report"), "status", "completed")
        if status == "failed":
            level = logging.ERROR
        elif status != "completed" or event.data.get("kind"):
            level = max(level, logging.WARNING)
        if not logger.isEnabledFor(level):
            return
        fields = _fields(event)
        text = "".join(f" {name}={json.dumps(value)}" for name, value in fields.items())
        logger.log(level, "%s%s", hook, text, extra={"event": hook, **fields})


class _WrittenLog(EventLog):
    """Stops writing records to standard error at shutdown."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop

    def shutdown(self, event: Event) -> None:
        super().shutdown(event)
        self._stop()


_INGEST, _RETRIEVAL, _EMBEDDER, _WORKFLOW, _MODEL, _PROJECT = (
    logging.getLogger(f"lorebind.{name}")
    for name in ("ingest", "retrieval", "embedder", "workflow", "model", "project")
)
_RECORDS = {
    "collection_created": (_INGEST, logging.INFO),
    "collection_deleted": (_INGEST, logging.INFO),
    "ingest_started": (_INGEST, logging.INFO),
    "ingest_listed": (_INGEST, logging.DEBUG),
    "ingest_chunked": (_INGEST, logging.DEBUG),
    "ingest_embedded": (_INGEST, logging.DEBUG),
    "ingest_progressed": (_INGEST, logging.DEBUG),
    "ingest_completed": (_INGEST, logging.INFO),
    "ingest_failed": (_INGEST, logging.ERROR),
    "document_deleted": (_INGEST, logging.INFO),
    "reindex_started": (_INGEST, logging.INFO),
    "reindex_completed": (_INGEST, logging.INFO),
    "reindex_failed": (_INGEST, logging.ERROR),
    "embedder_called": (_EMBEDDER, logging.DEBUG),
    "retrieval_started": (_RETRIEVAL, logging.DEBUG),
    "retrieval_completed": (_RETRIEVAL, logging.INFO),
    "retrieval_failed": (_RETRIEVAL, logging.ERROR),
    "workflow_ended": (_WORKFLOW, logging.INFO),
    "task_ended": (_WORKFLOW, logging.DEBUG),
    "model_called": (_MODEL, logging.DEBUG),
    "tool_called": (_MODEL, logging.DEBUG),
    "shutdown": (_PROJECT, logging.DEBUG),
}
"""The logger of each hook, and its level if nothing failed."""

for _hook in _RECORDS:
    setattr(EventLog, _hook, partialmethod(EventLog._log, _hook))


def _fields(event: Event) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if event.namespace is not None:
        space = event.namespace
        fields = {"kb_id": space.kb, "tenant": space.tenant, "project": space.project}
        fields["scope"] = space.scope
    if event.run_id:
        fields["run_id"] = event.run_id
    for name, value in event.data.items():
        if name == "report":
            fields |= _counts(value)
        elif value != "":
            fields[name] = value
    return fields


def _counts(report: Any) -> Mapping[str, Any]:
    return {
        "status": report.status,
        **{f"documents_{name}": count for name, count in report.documents.items()},
        **{f"chunks_{name}": count for name, count in report.chunks.items()},
        "texts_embedded": report.texts_embedded,
        "texts_truncated": report.texts_truncated,
        "cache_hits": report.cache_hits,
        "sources_failed": sum(source.status == "failed" for source in report.sources),
        "seconds": report.seconds,
    }
