"""Processes that read documents with libraries whose resource use cannot be limited otherwise.

A document can make such a library use all memory, run for hours or crash its process. So these
libraries run in separate processes, started on first use, with limits of memory and time. If a
document exceeds them, only that document fails. The processes also use all processors.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar

from lorebind_config.declarations.sources import LoadingDeclaration, mebibytes
from lorebind_config.errors import (
    DocumentLimitError,
    MissingDependencyError,
    NotFoundError,
    SourceError,
)
from lorebind_config.namespace import digest
from lorebind_knowledge.loaders.base import MAX_CHARACTERS
from lorebind_knowledge.loaders.reader_process import LENGTHS, READY, loader_of, unpacked
from lorebind_knowledge.plumbing.lanes import usable_processors
from lorebind_knowledge.resilience.limits import FairSemaphore

if TYPE_CHECKING:
    from lorebind_knowledge.loaders.reader_process import Read

R = TypeVar("R")

_MOST_BY_DEFAULT = 8
_DRAWN_AT_ONCE = 2
"""Each takes a process of its own, and the bytes of its document."""
_MOST_STRUCTURE = 16 * 1024 * 1024
"""In bytes, for everything except the text: titles, headings, places, metadata of rows."""
_SECONDS_TO_START = 60
_SECONDS_ALONE = 0.3
"""Time before the first process gets help: starting one takes as long as reading dozens of pages of
HTML, so a few small documents are read sooner without."""

_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from lorebind_knowledge.loaders.reader_process import main; main(int(sys.argv[2]))"
)
_LIBRARIES = (
    "pypdfium2",
    "pdfplumber",
    "python-docx",
    "python-pptx",
    "openpyxl",
    "striprtf",
    "selectolax",
)
_NEEDED = (
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "PATH",
    "PYTHONHOME",
    "SYSTEMROOT",
    "TMPDIR",
    "VIRTUAL_ENV",
)
"""Environment variables for the processes. They read hostile documents, so they get no secrets."""


@dataclass(slots=True)
class Loading:
    """The limits for reading a document, and the documents known to exceed them."""

    limits: LoadingDeclaration = field(default_factory=LoadingDeclaration)
    exceeded: dict[str, str] = field(default_factory=dict)
    """Why a document was refused, by `key`."""
    drawing: FairSemaphore = field(default_factory=lambda: FairSemaphore(_DRAWN_AT_ONCE))
    """Limits the pictures of pages that are drawn for callers at the same time."""

    def key(self, uri: str, signature: str) -> str:
        """Return a key for a document's content, its limits and the versions of the libraries.

        A document is refused again as long as its key stays the same.
        """
        limits = self.limits
        return digest(
            uri,
            signature,
            limits.max_memory,
            f"{limits.max_seconds:g}",
            "unlimited" if limits.processes == 0 else "limited",
            *_versions(),
        )


@functools.cache
def _versions() -> list[str]:
    versions = []
    for distribution in _LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions.append(importlib.metadata.version(distribution))
    return versions


class Readers:
    """A pool of processes that read documents for one ingest or plan.

    It is a context manager that ends its processes on exit, and is safe to share among threads.
    """

    def __init__(self, limits: LoadingDeclaration, *, fixed: bool = False) -> None:
        """
        Args:
            limits: for each process and document.
            fixed: whether no setting changes the limits, for messages.
        """
        self._limits, self._fixed = limits, fixed
        most = min(usable_processors(), _MOST_BY_DEFAULT)
        self.at_once = most if limits.processes is None else limits.processes
        """Number of documents to read at the same time; 0 to read them in this process."""
        self._threads = ThreadPoolExecutor(max(self.at_once, 1), "lorebind-readers")
        self._lock = threading.Condition()  # for the four below; notified of idle processes
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()
        self._stopped = False
        self._help_from = 0.0
        """When a second process may be started; 0 before the first."""

    def begin(self, form: str, data: bytes, uri: str, **options: Any) -> Future[Any]:
        """Start to read a document in one of `reader_process.FORMATS`, or to draw its pages.

        Args:
            form: the format.
            data: the whole document.
            uri: its uri, for messages.
            options: arguments of the loader; `pages` asks for pictures of these pages, or in the
                format `pdf_words` for their words.

        Returns:
            A future of the document. Its `result` raises DocumentLimitError if a limit was
            exceeded, CancelledError if `stop` was called, and otherwise the loader's exceptions.
        """
        if not self.at_once:
            read: Future[Any] = Future()
            try:
                read.set_result(loader_of(form, options)(data, uri))
            except Exception as error:
                read.set_exception(error)
            return read
        return self._threads.submit(self._read, form, data, uri, options)

    def stop(self) -> None:
        """End all processes, which cancels the documents being read."""
        with self._lock:
            self._stopped = True
            running, self._all = self._all, set()
            self._idle.clear()
            self._lock.notify_all()
        for process in running:
            process.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._threads.shutdown(cancel_futures=True)

    def _read(self, form: str, data: bytes, uri: str, options: dict[str, Any]) -> Read:
        process, is_new = self._take(uri)
        started = False
        try:
            process.start()
            started = True
            about, text = process.ask(form, data, uri, options)
        except _EndedError as ended:
            with self._lock:
                self._all.discard(process)
                if self._stopped:
                    raise CancelledError from None
            if not started:
                raise _not_started(uri, ended.how or "it takes too long") from None
            if is_new or not ended.how:
                raise self._refusal(uri, ended) from None
        else:
            self._give_back(process, last=about.get("last", True))
            return self._answered(about, text, uri)
        # Something else may have killed an older process. Only for a new one it was the document.
        return self._read(form, data, uri, options)

    def _answered(self, about: dict[str, Any], text: bytes, uri: str) -> Read:
        match about.get("failure"):
            case None:
                try:
                    return unpacked(about, text)
                except Exception as error:  # a document may have taken over the process
                    why = "the process that read it returned no document"
                    raise SourceError(f"{uri}: {why}") from error
            case "missing":
                raise MissingDependencyError(about["message"])
            case "absent":
                raise NotFoundError(about["message"])
            case "memory":
                raise self._refusal(uri, _EndedError())
        raise SourceError(about["message"])

    def _take(self, uri: str) -> tuple[_Process, bool]:
        """Return a process, and whether it is new."""
        with self._lock:
            while not (self._idle or self._stopped):
                if (left := self._help_from - time.monotonic()) <= 0:
                    break
                self._lock.wait(left)
            if self._stopped:
                raise CancelledError
            while self._idle:
                process = self._idle.pop()
                if process.alive:
                    return process, False
            self._help_from = self._help_from or time.monotonic() + _SECONDS_ALONE
        try:
            process = _Process(mebibytes(self._limits.max_memory), self._limits.max_seconds)
        except OSError as error:
            raise _not_started(uri, error.strerror or str(error)) from error
        with self._lock:
            if not self._stopped:
                self._all.add(process)
                return process, True
        process.end()
        raise CancelledError

    def _give_back(self, process: _Process, *, last: bool) -> None:
        with self._lock:
            if not last and not self._stopped:
                self._idle.append(process)
                self._lock.notify()
                return
            self._all.discard(process)
        process.end()

    def _refusal(self, uri: str, ended: _EndedError) -> DocumentLimitError:
        limits = self._limits
        if ended.too_long:
            return DocumentLimitError(
                f"{uri}: it has more than {MAX_CHARACTERS:,} characters, or too many headings or "
                "values in metadata of rows; split the document"
            )
        name, most = "max_memory", f"more than {limits.max_memory} of memory"
        if ended.late:
            name, most = "max_seconds", f"longer than {limits.max_seconds:g} seconds"
        takes = f"takes {most}"
        if ended.how:
            takes = f"ends the process that reads it ({ended.how}), most likely because it {takes}"
        until = "it" if self._fixed else f"it or loading.{name}"
        return DocumentLimitError(
            f"{uri}: reading it {takes}; it is not read again until {until} changes"
        )


def _not_started(uri: str, why: str) -> SourceError:
    return SourceError(
        f"{uri}: cannot be read, because the process for reading it cannot be started with "
        f"{sys.executable!r}: {why}; with loading: {{processes: 0}} no process is needed"
    )


class _EndedError(Exception):
    """A process ended, or had to be ended, before it had read a document."""

    def __init__(self, *, late: bool = False, too_long: bool = False, how: str = "") -> None:
        super().__init__()
        self.late = late
        self.too_long = too_long
        self.how = how
        """A signal or an exit code; empty if this process ended it."""


class _Process:
    """A process that reads documents one after another."""

    def __init__(self, max_memory: int, max_seconds: float) -> None:
        """Start the process.

        Args:
            max_memory: in mebibytes.
            max_seconds: for each document.

        Raises:
            OSError: it cannot be started.
        """
        path = json.dumps([str(folder) for folder in sys.path])
        self._process = subprocess.Popen(
            # -P keeps the current folder off the path, because it may contain modules of any name.
            [sys.executable, "-P", "-c", _PROGRAM, path, str(max_memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _NEEDED if name in os.environ},
        )
        assert self._process.stdin
        assert self._process.stdout
        self._jobs, self._answers = self._process.stdin, self._process.stdout
        self._ready = False
        self._max_seconds = max_seconds
        self._lock = threading.Lock()  # for the deadline, which the watching thread reads
        self._deadline = math.inf
        self._late = False
        self._ended = threading.Event()
        watch = (min(max_seconds, _SECONDS_TO_START),)
        threading.Thread(target=self._watch, args=watch, daemon=True).start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def start(self) -> None:
        """Wait until the process accepts jobs.

        Raises:
            _EndedError: the process has ended instead.
        """
        if not self._ready:
            self._within(_SECONDS_TO_START, lambda: self._received(len(READY)))
            self._ready = True

    def ask(
        self, form: str, data: bytes, uri: str, options: dict[str, Any]
    ) -> tuple[dict[str, Any], bytes]:
        """Send a job and return its result; see `reader_process`.

        Raises:
            _EndedError: the process has ended without a result.
        """
        job = {"form": form, "uri": uri, "size": len(data), "seconds": self._max_seconds}
        job["options"] = options
        head = json.dumps(job).encode() + b"\n"
        return self._within(self._max_seconds, lambda: self._answer(head, data))

    def _within(self, seconds: float, wait: Callable[[], R]) -> R:
        """Return the result of `wait`; the process is killed if that takes too long."""
        with self._lock:
            self._deadline = time.monotonic() + seconds
        try:
            result = wait()
        except (OSError, ValueError):  # a broken pipe, or one that `end` closed
            self.end()
            code = self._process.returncode
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            raise _EndedError(late=self._late, how="" if self._late else how) from None
        with self._lock:
            self._deadline = math.inf
        if self._late:
            self.end()
            raise _EndedError(late=True)
        return result

    def _watch(self, seconds: float) -> None:
        """Kill the process when its deadline passes.

        One thread for all its jobs, as a timer for each would take longer than reading small pages.
        Each job has `seconds` or more, so after as many seconds its deadline is still to come.
        """
        wait = seconds
        while not self._ended.wait(wait):
            with self._lock:  # so that a job that ends now is late, and not the next one
                left = self._deadline - time.monotonic()
                self._late = left <= 0
            if self._late:
                self._process.kill()
                return
            wait = min(left, seconds)

    def _answer(self, head: bytes, data: bytes) -> tuple[dict[str, Any], bytes]:
        self._jobs.write(head)
        self._jobs.write(data)
        self._jobs.flush()
        about_size, text_size = LENGTHS.unpack(self._received(LENGTHS.size))
        # A hostile document may have taken over the process, which then sends what it wants.
        if about_size > _MOST_STRUCTURE or text_size > 4 * MAX_CHARACTERS:
            self.end()
            raise _EndedError(too_long=True)
        about = json.loads(self._received(about_size))
        return about, self._received(text_size)

    def _received(self, size: int) -> bytes:
        data = self._answers.read(size)
        if len(data) < size:
            raise BrokenPipeError
        return data

    def end(self) -> None:
        """Kill the process."""
        self._ended.set()
        self._process.kill()
        self._process.wait()
        for pipe in (self._jobs, self._answers):
            with contextlib.suppress(OSError):  # unsent data cannot be flushed
                pipe.close()
