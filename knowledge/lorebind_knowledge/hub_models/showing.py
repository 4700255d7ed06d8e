"""How a download is shown: a line that tells its size, and a bar where there is a terminal."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

Show: TypeAlias = "Callable[[str, int], AbstractContextManager[Callable[[int], None]]]"
"""Given the line and the bytes in all; gives what is told of the bytes that arrive."""

shown_by: ContextVar[Show | None] = ContextVar("shown_by", default=None)
"""Another way to show downloads, for programs that have the terminal in their hands."""


@contextmanager
def shown(line: str, size: int) -> Iterator[Callable[[int], None]]:
    """Show a download while the block runs."""
    from rich.console import Console

    show = shown_by.get() or partial(show_on, Console(stderr=True))
    with show(line, size) as advance:
        yield advance


@contextmanager
def show_on(console: Console, line: str, size: int) -> Iterator[Callable[[int], None]]:
    """On a console: the line, and a bar below it if it is a terminal."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)
    columns = BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=size)
        yield partial(progress.advance, task)


def megabytes(size: float) -> str:
    """Bytes in words: `67 MB`, `2.24 GB`."""
    if size >= 1e9:
        return f"{size / 1e9:.3g} GB"
    return f"{size / 1e6:.3g} MB" if size >= 1e6 else f"{size / 1e3:.3g} kB"
