"""Progress bars on standard error, for ingests and the downloads that they wait for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from lorebind.cli.terminal import console, print_line
from lorebind_knowledge.events import Event, Extension
from lorebind_knowledge.hub_models.snapshot import shown_by
from lorebind_knowledge.ingest.progress import progress_line

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from lorebind_knowledge.events import Events


EVERY_SECONDS = 10
"""The shortest time between two lines where there is no terminal."""


class _Bars(Extension):
    """Advances a bar for reading and one for embedding, which appear with the first new chunk."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._read: TaskID = progress.add_task("read", total=None)
        self._embed: TaskID = progress.add_task("embed", total=None)

    def ingest_progressed(self, event: Event) -> None:
        data, update = event.data, self._progress.update
        update(self._read, total=data["documents"], completed=data["documents_read"])
        update(self._embed, total=data["chunks"], completed=data["chunks_embedded"])
        if data["chunks"]:
            self._progress.start()


class _Lines(Extension):
    """Prints how far an ingest is, at most every ten seconds."""

    def __init__(self) -> None:
        self._printed_at = time.monotonic()

    def ingest_progressed(self, event: Event) -> None:
        now = time.monotonic()
        if now - self._printed_at >= EVERY_SECONDS:
            self._printed_at = now
            print_line(f"progress: {progress_line(event.data)}", stderr=True)


@contextmanager
def _downloading(progress: Progress, line: str, size: int) -> Iterator[Callable[[int], None]]:
    """Add a bar for a download that an ingest waits for."""
    progress.console.print(line, soft_wrap=True)
    task = progress.add_task("MB", total=size / 1e6)
    yield lambda count: progress.advance(task, count / 1e6)


@contextmanager
def progress_bars(events: Events) -> Iterator[Extension]:
    """Show a bar for each stage, with its rate and the remaining time, within the block.

    If standard error is not a terminal, it gets a line every ten seconds instead.

    Yields:
        The extension that shows them.
    """
    err = console(stderr=True)
    if not err.is_terminal:
        lines = _Lines()
        events.subscribe(lines)
        try:
            yield lines
        finally:
            events.unsubscribe(lines)
        return
    # Every command imports this module, and few of them show bars.
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class RateColumn(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:.0f}/s" if speed else "", style="progress.data.speed")

    progress = Progress(
        TextColumn("{task.description:>6}"),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeRemainingColumn(),
        console=err,
    )
    bars = _Bars(progress)
    events.subscribe(bars)
    before = shown_by.set(partial(_downloading, progress))
    try:
        yield bars
    finally:
        shown_by.reset(before)
        events.unsubscribe(bars)
        progress.stop()
