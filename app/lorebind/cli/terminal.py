"""Safe output: printed text cannot control the terminal, and lost output is reported."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

PLAIN_WIDTH = 100

# Control characters (C0, C1), line separators, bidirectional controls (https://trojansource.codes)
# and lone surrogates, which no encoding has. Newlines and tabs are ordinary text.
_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Escape characters that would control a terminal, such as `\\x1b` for an escape."""
    return _ACTING.sub(_written_out, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Escape a name or a message as `visible` does, including its newlines and tabs."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def is_showable(text: str, encoding: str) -> bool:
    """Check whether a text has no control characters and its encoding has all other characters."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return _ACTING.search(text) is None


def _written_out(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


class OutputError(Exception):
    """Standard output cannot be written. Not an `OSError`, because libraries may handle those."""


class Styled(io.TextIOBase):
    """A standard stream for text that is already safe and may contain colors.

    Characters missing from its encoding are escaped, as `\\xe9`. Failures to write to standard
    output raise an error; failures to write to standard error are ignored, because there is nowhere
    to report them.
    """

    def __init__(self, stream: TextIO | None, *, is_result: bool) -> None:
        """
        Args:
            stream: None if the process was started with the stream closed.
            is_result: whether it is standard output.
        """
        self._stream = stream
        self._is_result = is_result
        self.lost: OSError | None = None
        """The first error that prevented writing; None if all was written."""

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a plain attribute there
        return getattr(self._stream, "encoding", None) or "utf-8"

    def write(self, text: str, /) -> int:
        with self._noting_loss():
            if self._stream is None:
                raise OSError(errno.EBADF, "it is closed")
            encoding = self.encoding
            self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def flush(self) -> None:
        with self._noting_loss():
            if self._stream is not None:
                self._stream.flush()

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        if self._stream is None:
            raise io.UnsupportedOperation("fileno")
        return self._stream.fileno()

    def end(self) -> OSError | None:
        """Write buffered text, and return the first error that prevented writing, if any."""
        with suppress(OutputError):
            self.flush()
        if self.lost is not None:
            # Python flushes again at exit, and would print another error.
            with suppress(OSError), open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), self.fileno())
        return self.lost

    @contextmanager
    def _noting_loss(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.lost = self.lost or error
            if self._is_result:
                raise OutputError from error


class Plain(io.TextIOBase):
    """A standard stream that accepts any text and escapes its control characters."""

    def __init__(self, styled: Styled) -> None:
        self.styled = styled

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a plain attribute there
        return self.styled.encoding

    def write(self, text: str, /) -> int:
        self.styled.write(visible(text))
        return len(text)

    def flush(self) -> None:
        self.styled.flush()

    def isatty(self) -> bool:
        return self.styled.isatty()

    def fileno(self) -> int:
        return self.styled.fileno()


@contextmanager
def guarded_output() -> Iterator[Styled]:
    """Route all output through these streams within the block, and yield standard output."""
    _occupy_closed()
    before = sys.stdout, sys.stderr
    out, err = Styled(sys.stdout, is_result=True), Styled(sys.stderr, is_result=False)
    sys.stdout, sys.stderr = Plain(out), Plain(err)
    try:
        yield out
    finally:
        sys.stdout, sys.stderr = before
        err.end()


def _occupy_closed() -> None:
    """Open those of 0, 1 and 2 that are closed, so that no database gets such a descriptor."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # opens the lowest free descriptor


def console(*, stderr: bool = False, plain_width: int = PLAIN_WIDTH) -> Console:
    """Return standard output, or standard error for messages.

    If it is not a terminal, it is plain text of at most `plain_width` characters per line.
    """
    stream = sys.stderr if stderr else sys.stdout
    return _console(getattr(stream, "styled", stream), plain_width)


@lru_cache(maxsize=3)
def _console(stream: TextIO, plain_width: int) -> Console:
    from rich.console import Console
    from rich.segment import Segment

    class SafeConsole(Console):
        """A console that colors its own output, but escapes control characters in printed text."""

        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                text, style, control = segment
                yield segment if control else Segment(visible(text), style)

    width = None if stream.isatty() else plain_width
    return SafeConsole(file=stream, highlight=False, markup=False, emoji=False, width=width)


def print_line(text: str, *, stderr: bool = False) -> None:
    """Print a message as one line, even if names in it contain line breaks."""
    print(one_line(text), file=sys.stderr if stderr else sys.stdout)


def can_ask() -> bool:
    """Check whether a person at a terminal can answer."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty())


def says_yes(question: str) -> bool:
    """Ask a question at the terminal, and return whether the answer is yes."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
