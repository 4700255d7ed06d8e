"""`lorebind worker`: embed the texts of ingests, and run those that servers were asked for."""

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
    from lorebind.project import Project
    from lorebind.server.run_worker import ProjectWorker

_INTERRUPTED = 130


def worker(
    concurrency: Annotated[
        int,
        typer.Option(min=1, max=256, help="Calls at the same time, for each embedder."),
    ] = 4,
    runs: Annotated[
        int, typer.Option(min=0, max=256, help="Ingests at the same time, for `ingests: workers`.")
    ] = 1,
    once: Annotated[bool, typer.Option("--once", help="Exit when nothing is waiting.")] = False,
    project: ProjectOption = ".",
) -> None:
    """Work on ingests together with other processes, until SIGTERM or Ctrl-C.

    It needs the same project. With `engine: distributed` under `ingestion`, it embeds the texts of
    ingests that run elsewhere, and ends the calls in hand before it exits. The embedder's
    max_concurrent limits the calls of each worker too. With `ingests: workers` under `server`, it
    runs the ingests that a server was asked for. Others continue those that it has to leave.
    """
    loaded = open_project(project)
    try:
        worker = _make(loaded, concurrency, runs)
        print_line(f"waiting for {worker.works_on}; stop with Ctrl-C", stderr=True)
        asyncio.run(_run(worker, once=once))
    finally:
        loaded.close()


def _make(project: Project, concurrency: int, runs: int) -> ProjectWorker:
    """
    Raises:
        UsageError: there is nothing to work on.
    """
    # They take long to import, and `--help` needs none.
    from lorebind.server.run_worker import ProjectWorker, RunWorker
    from lorebind_config.declarations.project import LOCAL

    takes_runs = project.config.project.server.ingests == "workers" and runs > 0
    embeds = project.config.project.ingestion.engine != LOCAL
    embedding = project.knowledge.worker(concurrency) if embeds or not takes_runs else None
    return ProjectWorker(embedding, RunWorker(project, runs) if takes_runs else None)


async def _run(worker: ProjectWorker, *, once: bool) -> None:
    running = asyncio.ensure_future(worker.run(once=once))

    def stop(received: signal.Signals) -> None:
        if received is signal.SIGINT and running.cancelling():
            os._exit(_INTERRUPTED)
        worker.stop()
        running.cancel()

    for handled in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(handled, stop, handled)
    await asyncio.wait([running])
    from lorebind.server.ending import LAST_SECONDS, Ending  # as in `_make`

    ending = Ending()
    ending.code = int(not running.cancelled() and running.exception() is not None)
    ending.within(LAST_SECONDS)
    if not running.cancelled():
        running.result()
