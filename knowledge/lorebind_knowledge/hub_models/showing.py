"""Show a download: a line with its size, and a progress bar on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import IO, TypeAlias

from lorebind_config.extras import import_extra

Show: TypeAlias = "Callable[[str, int], AbstractContextManager[Callable[[int], None]]]"
"""Takes the line and the total bytes; yields a function to call with each number of new bytes."""

shown_by: ContextVar[Show | None] = ContextVar("shown_by", default=None)
"""Replaces the way downloads are shown, for programs that control the terminal."""


def shown(line: str, size: int) -> AbstractContextManager[Callable[[int], None]]:
    """Show a download while the block runs."""
    return (shown_by.get() or partial(show_on, sys.stderr))(line, size)


@contextmanager
def show_on(stream: IO[str] | None, line: str, size: int) -> Iterator[Callable[[int], None]]:
    """Print the line to a stream, and a progress bar below it if the stream is a terminal.

    The bar does not hide the cursor, since the thread that draws it may end with the process.
    """
    if stream is None:  # a program without standard error, such as a Windows service
        yield lambda _: None
        return
    tqdm = import_extra("tqdm", extra="fastembed", purpose="downloading a model").tqdm
    print(line, file=stream, flush=True)
    with tqdm(
        total=size, unit="B", unit_scale=True, disable=not stream.isatty(), file=stream
    ) as bar:
        yield bar.update


def megabytes(size: float) -> str:
    """Format a number of bytes: `67 MB`, `2.24 GB`."""
    if size >= 1e9:
        return f"{size / 1e9:.3g} GB"
    return f"{size / 1e6:.3g} MB" if size >= 1e6 else f"{size / 1e3:.3g} kB"
