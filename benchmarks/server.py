"""The latency of `lorebind serve`, compared with a single process.

    python benchmarks/server.py [--parts load,answers] [--clients N] [--seconds N] [--documents N]
        [--answers N]

`load`: a server on a Unix socket ingests one knowledge base while clients query another one without
pause, and `/healthz` is requested fifty times a second. Then the same number of tasks call
`Project.aquery` in a process that runs the same ingest. The baseline is that process.

`answers`: the latency of answers of a chat model over HTTP; see `server_answers.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import server_answers
import yaml

from lorebind import Project

WORDS = [f"word{number}" for number in range(2000)]
ASKED, INGESTED = "asked", "ingested"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default="load,answers", help="parts, separated by commas")
    parser.add_argument("--answers", type=int, default=30, help="the answers to time")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--documents", type=int, default=3000, help="the documents to ingest")
    arguments = parser.parse_args()
    if "answers" in arguments.parts.split(","):
        with tempfile.TemporaryDirectory(prefix="lb") as folder:
            root = Path(folder)
            server_answers.write_project(root)
            with Project.load(root) as project:
                project.ingest("docs")
            asyncio.run(answers_of(root, arguments.answers))
    for served in (True, False) if "load" in arguments.parts.split(",") else ():
        with tempfile.TemporaryDirectory(prefix="lb") as folder:
            root = Path(folder)
            write_project(root, arguments.documents)
            with Project.load(root) as project:
                project.ingest(ASKED)
            measure = served_from(root, arguments) if served else in_process(root, arguments)
            print("served" if served else "in one process")
            asyncio.run(measure)


def write_project(root: Path, documents: int) -> None:
    rng = random.Random(1)
    for name, count in ((ASKED, min(300, documents)), (INGESTED, documents)):
        (root / name).mkdir()
        for number in range(count):
            text = "\n\n".join(" ".join(rng.choices(WORDS, k=60)) for _ in range(5))
            (root / name / f"{number}.md").write_text(text)
    knowledge_bases = [
        {"id": name, "sources": [{"type": "markdown_glob", "path": f"{name}/*.md"}]}
        for name in (ASKED, INGESTED)
    ]
    embedders = [{"id": "words", "provider": "hashing"}]
    declared = {"name": "load", "embedders": embedders, "knowledge_bases": knowledge_bases}
    (root / "lorebind.yaml").write_text(yaml.safe_dump(declared))


@asynccontextmanager
async def serving(root: Path, clients: int) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the project, and return a client of the API."""
    socket = root / "s"
    command = [sys.executable, "-m", "lorebind", "serve", "--uds", str(socket), "-p", str(root)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        limits = httpx.Limits(max_connections=clients + 2)
        async with httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=str(socket), limits=limits),
            base_url="http://localhost/api/v0",
            timeout=60,
        ) as api:
            yield api
    finally:
        process.terminate()
        await process.wait()


async def answers_of(root: Path, count: int) -> None:
    async with serving(root, server_answers.STREAMS) as api:
        await server_answers.measure(root, api, count)


async def served_from(root: Path, arguments: argparse.Namespace) -> None:
    async with serving(root, arguments.clients) as api:
        await ask_served(api, "warm")
        run = await api.post(f"/knowledge-bases/{INGESTED}/ingest")
        path = f"/knowledge-bases/{INGESTED}/runs/{run.json()['run_id']}"

        async def is_running() -> bool:
            return bool((await api.get(path)).json()["status"] == "running")

        async def health() -> None:
            (await api.get("http://localhost/healthz")).raise_for_status()

        await load(arguments, lambda text: ask_served(api, text), is_running, health)


async def ask_served(api: httpx.AsyncClient, text: str) -> None:
    (await api.post(f"/knowledge-bases/{ASKED}/query", json={"query": text})).raise_for_status()


async def in_process(root: Path, arguments: argparse.Namespace) -> None:
    async with Project.load(root) as project:

        async def ask(text: str) -> None:
            await project.aquery(ASKED, text)

        async def is_running() -> bool:
            return not ingest.done()

        async def health() -> None:
            await asyncio.sleep(0)

        await ask("warm")
        ingest = asyncio.create_task(project.aingest(INGESTED))
        await load(arguments, ask, is_running, health)
        ingest.cancel()
        with suppress(asyncio.CancelledError):
            await ingest


async def load(
    arguments: argparse.Namespace,
    ask: Callable[[str], Awaitable[None]],
    is_running: Callable[[], Awaitable[bool]],
    health: Callable[[], Awaitable[None]],
) -> None:
    """Query for some seconds, or until the ingest has ended, and print the latencies."""
    until = time.monotonic() + arguments.seconds
    seconds: list[float] = []
    healthy: list[float] = []
    errors: list[str] = []

    async def asking(number: int) -> None:
        rng = random.Random(number)
        while time.monotonic() < until:
            await timed(ask(" ".join(rng.choices(WORDS, k=5))), seconds, errors)

    async def probing() -> None:
        while time.monotonic() < until:
            await timed(health(), healthy, errors)
            await asyncio.sleep(0.02)

    began = time.monotonic()
    await asyncio.gather(*(asking(number) for number in range(arguments.clients)), probing())
    took = time.monotonic() - began
    running = "under way" if await is_running() else "ended"
    print(
        f"  {len(seconds)} answers, {len(seconds) / took:.0f}/s, {len(errors)} errors; "
        f"p50 {part(seconds, 0.5):.0f} ms, p99 {part(seconds, 0.99):.0f} ms; "
        f"/healthz p99 {part(healthy, 0.99):.0f} ms; ingest {running}"
    )
    for error in set(errors):
        print(f"  {error}")


async def timed(work: Awaitable[Any], seconds: list[float], errors: list[str]) -> None:
    began = time.perf_counter()
    try:
        await work
    except Exception as error:
        errors.append(f"{type(error).__name__}: {error}")
    else:
        seconds.append(time.perf_counter() - began)


def part(seconds: list[float], share: float) -> float:
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000


if __name__ == "__main__":
    main()
