"""The program of a process that reads documents for another process, within its own limits.

`readers` starts it, and exchanges jobs and results through pipes. A job is a line of JSON and the
document's bytes. A result is the lengths of its two parts, a JSON object with everything except the
text, and the text in UTF-8. Nothing is pickled, because a process that reads hostile documents is
not trusted.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import math
import os
import pkgutil
import signal
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import IO, Any, TypeAlias

from lorebind_config.errors import MissingDependencyError, NotFoundError, SourceError
from lorebind_knowledge.loaders.base import LoadedDocument
from lorebind_knowledge.loaders.marks import Anchor, Cue, Heading, Record, Table

LENGTHS = struct.Struct(">QQ")
"""Lengths of a result's two parts, in bytes."""
READY = b"\n"
"""Sent once, when the process accepts jobs."""

_MEBIBYTE = 1024 * 1024
_SECONDS_MORE = 5
"""Seconds after the time limit until the process ends itself.

The process that sent the job ends it at the limit, unless that process is gone.
"""

_LOADERS = {
    "pdf": "lorebind_knowledge.loaders.pdf:load_pdf",
    "pdf_tables": "lorebind_knowledge.loaders.pdf_tables:load_pdf_with_tables",
    "docx": "lorebind_knowledge.loaders.office.docx:load_docx",
    "pptx": "lorebind_knowledge.loaders.office.pptx:load_pptx",
    "xlsx": "lorebind_knowledge.loaders.office.xlsx:load_xlsx",
    "epub": "lorebind_knowledge.loaders.epub:load_epub",
    "rtf": "lorebind_knowledge.loaders.office.rtf:load_rtf",
    "eml": "lorebind_knowledge.loaders.mail:load_mail",
    "image": "lorebind_knowledge.loaders.scans.pictures:load_image",
    "scan": "lorebind_knowledge.loaders.scans.recognition:recognize",
    "html": "lorebind_knowledge.loaders.html.page:load_page",
    "trafilatura": "lorebind_knowledge.loaders.html.page:load_with_trafilatura",
}
_OF_PAGES = {
    "pdf": "lorebind_knowledge.loaders.scans.pictures:pdf_pictures",
    "image": "lorebind_knowledge.loaders.scans.pictures:image_pictures",
    "docx": "lorebind_knowledge.loaders.office.docx:docx_pictures",
    "pptx": "lorebind_knowledge.loaders.office.pptx:pptx_pictures",
    "pdf_words": "lorebind_knowledge.loaders.scans.words:pdf_words",
}
FORMATS = frozenset(_LOADERS)
"""Formats of libraries that need limits, PDF with tables, and the extractors of HTML."""

_MOST_USED = {"scan": 0.8}
"""A process that has used a larger share of its memory ends after the document, by format.

By default a half. OCR frees what a page has taken, and loading its models again takes seconds.
"""
_MOST_USED_BY_DEFAULT = 0.5

Read: TypeAlias = "LoadedDocument | list[bytes]"
"""A document; or pictures of pages, or their words."""


def loader_of(form: str, options: Mapping[str, Any] | None = None) -> Callable[..., Any]:
    """Return the loader for one of `FORMATS`; with the option `pages`, of these pages alone."""
    loaders = _OF_PAGES if options and "pages" in options else _LOADERS
    loader: Callable[..., Any] = pkgutil.resolve_name(loaders[form])
    return partial(loader, **options) if options else loader


def main(max_memory: int) -> None:
    """Process jobs until there are no more.

    Args:
        max_memory: maximum memory of this process, in mebibytes.
    """
    jobs, answers = _own_streams()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent process
    _limit_memory(max_memory)
    # Documents become trees without cycles. With the default of 700 objects, a tenth to a fifth of
    # the time for a large page of HTML goes into searching for cycles.
    gc.set_threshold(20_000)
    _send(answers, READY)
    while line := jobs.readline():
        job = json.loads(line)
        data = jobs.read(job["size"])
        with _limited_time(job["seconds"]):
            about, text = _answer(job, data, max_memory)
        del data
        # Memory that the process keeps would be missing for the next job.
        most = _MOST_USED.get(job["form"], _MOST_USED_BY_DEFAULT)
        about["last"] = _peak() > most * max_memory
        head = json.dumps(about).encode()
        _send(answers, LENGTHS.pack(len(head), len(text)), head, text)
        if about["last"]:
            return


def unpacked(about: dict[str, Any], text: bytes) -> Read:
    """Return what the result has; raises any exception if it is invalid."""
    if "sizes" in about:
        stream = io.BytesIO(text)
        return [stream.read(size) for size in about["sizes"]]
    return LoadedDocument(
        text.decode(),
        about["title"],
        tuple(Heading(*heading) for heading in about["headings"]),
        about["body_start"],
        about["metadata"],
        about["format"],
        anchors=tuple(Anchor(*anchor) for anchor in about["anchors"]),
        cues=tuple(Cue(*cue) for cue in about["cues"]),
        omitted={str(kind): int(count) for kind, count in about["omitted"].items()},
        tables=tuple(Table(*table) for table in about["tables"]),
        records=tuple(Record(*record) for record in about["records"]),
        properties=about["properties"],
    )


def _answer(job: dict[str, Any], data: bytes, max_memory: int) -> tuple[dict[str, Any], bytes]:
    """Return the two parts of a result; without a document, `failure` has the reason."""
    uri = job["uri"]
    try:
        document: Read = loader_of(job["form"], job["options"])(data, uri)
        if isinstance(document, list):
            return {"sizes": [*map(len, document)]}, b"".join(document)
        about = {name: getattr(document, name) for name in _BESIDE_THE_TEXT}
        return about, document.text.encode()
    except MissingDependencyError as error:
        return {"failure": "missing", "message": str(error)}, b""
    except NotFoundError as error:
        return {"failure": "absent", "message": str(error)}, b""
    except MemoryError:
        return {"failure": "memory"}, b""
    except Exception as error:  # loaders can raise more than SourceError
        # Some libraries report a lack of memory as a broken document.
        failure = "memory" if _peak() * 4 > max_memory * 3 else "source"
        message = str(error)
        if not isinstance(error, SourceError):
            message = f"{uri}: cannot be read: {type(error).__name__}: {error}"
        return {"failure": failure, "message": message}, b""


_BESIDE_THE_TEXT = (
    *("title", "headings", "body_start", "metadata", "format", "anchors", "cues", "omitted"),
    *("tables", "records", "properties"),
)


def _own_streams() -> tuple[IO[bytes], IO[bytes]]:
    """Return standard input and output, and detach them so that libraries cannot use them."""
    jobs, answers = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    return os.fdopen(jobs, "rb"), os.fdopen(answers, "wb")


def _send(answers: IO[bytes], *parts: bytes) -> None:
    for part in parts:
        answers.write(part)
    answers.flush()


def _limit_memory(max_memory: int) -> None:
    """Set the system's limit; only Linux counts all allocated memory."""
    if sys.platform == "linux":
        import resource

        # Not RLIMIT_AS, which also counts what libraries map and never touch.
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = max_memory * _MEBIBYTE
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        # A crash must not leave the document in a file on the disk.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@contextlib.contextmanager
def _limited_time(seconds: float) -> Iterator[None]:
    """Have the system end this process if the block takes much longer."""
    if sys.platform == "win32":
        yield
        return
    signal.alarm(math.ceil(seconds) + _SECONDS_MORE)
    yield
    signal.alarm(0)


def _peak() -> float:
    """Return the peak memory of this process in mebibytes; 0 if it is unknown."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            kilobytes = next(line.split()[1] for line in status if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return 0
    return int(kilobytes) / 1024
