"""`lorebind worker`: embed the texts of ingests that run elsewhere."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from lorebind.cli.opening import open_project
from lorebind.cli.options import ProjectOption
from lorebind.cli.terminal import print_line

if TYPE_CHECKING:
    from lorebind_knowledge.scale.worker import Worker

_INTERRUPTED = 130


def worker(
    concurrency: Annotated[
        int,
        typer.Option(min=1, max=256, help="Calls at the same time, for each embedder."),
    ] = 4,
    once: Annotated[bool, typer.Option("--once", help="Exit when no texts are waiting.")] = False,
    project: ProjectOption = ".",
) -> None:
    """Embed the texts of ingests that run elsewhere, until SIGTERM or Ctrl-C.

    It needs the same project, with `engine: distributed` under `ingestion`. It ends the calls in
    hand before it exits. The embedder's max_concurrent limits the calls of each worker too.
    """
    loaded = open_project(project)
    try:
        worker = loaded.knowledge.worker(concurrency)
        print_line("waiting for texts; stop with Ctrl-C", stderr=True)
        asyncio.run(_run(worker, once=once))
    finally:
        loaded.close()


async def _run(worker: Worker, *, once: bool) -> None:
    running = asyncio.ensure_future(worker.run(once=once))

    def stop(received: signal.Signals) -> None:
        if received is signal.SIGINT and running.cancelling():
            os._exit(_INTERRUPTED)
        worker.stop()
        running.cancel()

    for handled in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(handled, stop, handled)
    await asyncio.wait([running])
    if not running.cancelled():
        running.result()
