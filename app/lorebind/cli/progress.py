"""Progress bars on standard error, for ingests and model downloads."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from lorebind_knowledge.events import Event, Extension
from lorebind_knowledge.hub_models.showing import show_on, shown_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from rich.progress import Progress, TaskID

    from lorebind_knowledge.events import Events
    from lorebind_knowledge.ingest.report import IngestPlan


class _Bars(Extension):
    def __init__(self, progress: Progress, plan: IngestPlan) -> None:
        documents = sum(plan.documents.values()) - plan.documents["removed"]
        self._progress = progress
        self._read: TaskID = progress.add_task("read", total=documents)
        self._embed: TaskID = progress.add_task("embed", total=_to_embed(plan))

    def ingest_chunked(self, event: Event) -> None:
        self._progress.advance(self._read)

    def ingest_embedded(self, event: Event) -> None:
        self._progress.advance(self._embed, event.data["chunks"])


@contextmanager
def showing_downloads() -> Iterator[None]:
    """Show downloads on standard error within the block, with a bar if it is a terminal."""

    def show(line: str, size: int) -> AbstractContextManager[Callable[[int], None]]:
        from lorebind.cli.printing import console

        return show_on(console(stderr=True).file, line, size)

    before = shown_by.set(show)
    try:
        yield
    finally:
        shown_by.reset(before)


@contextmanager
def _downloading(progress: Progress, line: str, size: int) -> Iterator[Callable[[int], None]]:
    """Add a bar for a download that an ingest waits for."""
    progress.console.print(line, soft_wrap=True)
    task = progress.add_task("MB", total=size / 1e6)
    yield lambda count: progress.advance(task, count / 1e6)


def _to_embed(plan: IngestPlan) -> int:
    """Count the chunks of all new and changed documents, including cached embeddings."""
    return plan.texts_to_embed + plan.cache_hits


@contextmanager
def progress_bars(events: Events, plan: IngestPlan) -> Iterator[None]:
    """Show a bar for each stage, with its rate and the remaining time, within the block.

    Nothing is shown if standard error is not a terminal.
    """
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

    from lorebind.cli.printing import console

    class RateColumn(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:.0f}/s" if speed else "", style="progress.data.speed")

    err = console(stderr=True)
    if not err.is_terminal or not (_to_embed(plan) or plan.documents["removed"]):
        yield
        return
    progress = Progress(
        TextColumn("{task.description:>6}"),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeRemainingColumn(),
        console=err,
    )
    with progress:
        bars = _Bars(progress, plan)
        events.subscribe(bars)
        before = shown_by.set(partial(_downloading, progress))
        try:
            yield
        finally:
            shown_by.reset(before)
            events.unsubscribe(bars)
