"""Keep the HTTP client from logging requests whose address must not be shown."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LOGGERS = ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.http2")
"""httpx logs each address at INFO, httpcore the headers of each response at DEBUG."""

_silent = ContextVar("silent", default=False)


@contextmanager
def silence() -> Iterator[None]:
    """Suppress the HTTP client's logs for this task and for tasks that it starts."""
    _listen()
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


@functools.cache
def _listen() -> None:
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_passes)


def _passes(record: logging.LogRecord) -> bool:
    return not _silent.get()
