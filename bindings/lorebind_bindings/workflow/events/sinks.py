"""Sinks that events can be written to: the terminal, memory, a JSON Lines file."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from lorebind_bindings.workflow.events.event_line import event_line, styled
from lorebind_config.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lorebind_bindings.workflow.events import RunEvent


@runtime_checkable
class Sink(Protocol):
    """A destination of events. A function that is called with each event is one, too.

    A method `close` is optional; it is called at the end of each run that wrote to the sink. Each
    may be async. It then runs on the event loop of the caller, or on a loop of its own for sync
    callers.

    One separate thread calls all sinks of a run. If a sink raises, the error is counted and the
    next event is written. If the sinks are too slow, they lose the oldest events, see `SinkHealth`.
    Neither blocks the run.
    """

    def write(self, event: RunEvent, /) -> Awaitable[None] | None:
        """Receive an event; the events of a run arrive in order, one at a time."""


SinkOrFunction: TypeAlias = "Sink | Callable[[RunEvent], object]"
SinkLike: TypeAlias = "SinkOrFunction | str | Path"
"""The types that `as_sink` accepts."""


class MemorySink:
    """Collects all events in the list `events`."""

    def __init__(self) -> None:
        self.events: list[RunEvent] = []

    def write(self, event: RunEvent) -> None:
        """Append the event to `events`."""
        self.events.append(event)


class StdoutSink:
    """Prints each event as a line to standard output, colored if that is a terminal."""

    def write(self, event: RunEvent) -> None:
        """Print one line for the event, in color on a terminal."""
        out = sys.stdout
        line = event_line(event)
        if out.isatty() and "NO_COLOR" not in os.environ:
            line = styled(line, event)
        encoding = out.encoding or "utf-8"
        print(line.encode(encoding, "backslashreplace").decode(encoding), file=out, flush=True)


class JsonLinesSink:
    """Appends events to a file, each as a line of JSON. Several runs may share the sink.

    Args:
        path: the file, which is created if it does not exist.

    Raises:
        UsageError: the file cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.name = f"JsonLinesSink({self.path})"
        self._lock = threading.Lock()  # each run calls its sinks in a thread of its own
        self._file: io.FileIO | None = None
        self._check()

    def write(self, event: RunEvent) -> None:
        """Write a line for the event."""
        # ASCII: some programs split lines at non-ASCII characters that JSON allows.
        rest = json.dumps(event.as_json(), allow_nan=False).encode() + b"\n"
        with self._lock:
            try:
                self._file = self._file or self._open()
                while rest:  # a file without a buffer may take only a part
                    rest = rest[self._file.write(rest) :]
            except BaseException:
                self._close()  # reopening the file terminates an incomplete line
                raise

    def close(self) -> None:
        """Close the file; the next event reopens it."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> io.FileIO:
        opened = self.path.open("ab", buffering=0)
        if self.path.is_file() and self.path.stat().st_size:
            with self.path.open("rb") as before:
                before.seek(-1, io.SEEK_END)
                if before.read() != b"\n":  # a process was killed while it was writing
                    opened.write(b"\n")
        return opened

    def _check(self) -> None:
        if self.path.exists() and not (self.path.is_file() or self.path.is_dir()):
            return  # opening and closing a pipe would end it for its readers
        try:
            self.path.open("ab").close()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            hint = "name a file in a folder that exists and can be written to"
            raise UsageError(f"cannot write events to {self.path}: {why}; {hint}") from error


def as_sink(value: object) -> SinkOrFunction:
    """Return the sink that a value describes.

    Args:
        value: a sink; a function; the path of a file, see `JsonLinesSink`; or `"stdout"`.

    Raises:
        UsageError: the value is none of these, or the file cannot be written.
    """
    if value == "stdout":
        return StdoutSink()
    if isinstance(value, str | Path) and str(value):
        return JsonLinesSink(value)
    if isinstance(value, type | io.IOBase):  # classes are callable, and files have `write`
        value = repr(value)
    elif isinstance(value, Sink) or callable(value):
        return value
    raise UsageError(
        f"{value!r} is not a sink; pass an object with `write(event)`, a function, the path of a "
        'file, or "stdout"'
    )
