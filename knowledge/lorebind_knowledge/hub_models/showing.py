"""How a download is shown: a line that tells its size, and a bar where there is a terminal."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from lorebind_knowledge.extras import import_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO

Show: TypeAlias = "Callable[[str, int], AbstractContextManager[Callable[[int], None]]]"
"""Given the line and the bytes in all; gives what is told of the bytes that arrive."""

shown_by: ContextVar[Show | None] = ContextVar("shown_by", default=None)
"""Another way to show downloads, for programs that have the terminal in their hands."""


def shown(line: str, size: int) -> AbstractContextManager[Callable[[int], None]]:
    """Show a download while the block runs."""
    return (shown_by.get() or partial(show_on, sys.stderr))(line, size)


@contextmanager
def show_on(stream: IO[str] | None, line: str, size: int) -> Iterator[Callable[[int], None]]:
    """On a stream: the line, and a bar below it if it is a terminal.

    The bar hides no cursor: the thread that draws it may end with the process.
    """
    if stream is None:  # a program without a terminal, as a service of Windows is
        yield lambda _: None
        return
    tqdm = import_extra("tqdm", extra="fastembed", purpose="downloading a model").tqdm
    print(line, file=stream, flush=True)
    with tqdm(
        total=size, unit="B", unit_scale=True, disable=not stream.isatty(), file=stream
    ) as bar:
        yield bar.update


def megabytes(size: float) -> str:
    """Bytes in words: `67 MB`, `2.24 GB`."""
    if size >= 1e9:
        return f"{size / 1e9:.3g} GB"
    return f"{size / 1e6:.3g} MB" if size >= 1e6 else f"{size / 1e3:.3g} kB"
