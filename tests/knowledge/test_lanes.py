"""Lanes: which functions wait for each other's threads, and that none waits forever."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings

from lorebind_config.namespace import current_tenant, tenant
from lorebind_config.reading.loading import build_project
from lorebind_knowledge import KnowledgeService
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.documents.changing import add_documents, delete_document
from lorebind_knowledge.documents.listing import knowledge_stats, list_documents
from lorebind_knowledge.events import Events
from lorebind_knowledge.ingest.reindexing import reindex
from lorebind_knowledge.plumbing import bridge, lanes
from lorebind_knowledge.plumbing.bridge import call, finish
from lorebind_knowledge.plumbing.lanes import SIZES, Lane, Threads, lane, submit, threads_of
from tests.processes import run_program

from .bench import CountingEmbedder, ingest, paragraph, plan

LANES = tuple(SIZES)


class Blocking:
    """A function that blocks until it is released."""

    def __init__(self, expected: int) -> None:
        self._release = threading.Event()
        self._begun = threading.Semaphore(0)
        self._expected = expected
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        self._begun.release()
        assert self._release.wait(60)

    async def all_begun(self) -> None:
        def wait() -> bool:
            return all(self._begun.acquire(timeout=60) for _ in range(self._expected))

        assert await asyncio.to_thread(wait)

    def release(self) -> None:
        self._release.set()


@asynccontextmanager
async def blocked(
    name: Lane, threads: Threads | None = None, more: int = 3
) -> AsyncIterator[Blocking]:
    """Block all threads of a lane in the block, and let more functions wait for one."""
    size = SIZES[name]
    work = Blocking(size)
    with threads.lane(name) if threads else lane(name):
        calls = [asyncio.create_task(call(work)) for _ in range(size + more)]
    try:
        await work.all_begun()
        yield work
    finally:
        work.release()
        await asyncio.gather(*calls, return_exceptions=True)


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[KnowledgeService]:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(paragraph("alpha"))
    data: dict[str, Any] = {
        "name": "support",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [{"id": "main", "type": "sqlite"}],
        "knowledge_bases": [
            {"id": "docs", "sources": [{"type": "markdown_glob", "path": "docs/*.md"}]}
        ],
    }
    service = KnowledgeService(build_project(data, root=tmp_path), Events([]))
    await ingest(service.open("docs").corpus())
    yield service
    await service.close()


def threads_in(service: KnowledgeService) -> Threads:
    return service.index("main").catalog.threads


async def test_reads_and_ingests_do_not_wait_for_searches(service: KnowledgeService) -> None:
    """While all search threads are busy, searches wait, but reads and ingests do not."""
    docs = service.open("docs")
    async with asyncio.timeout(60), blocked("search", threads_in(service)) as work:
        search = asyncio.create_task(docs.query("alpha"))
        assert (await docs.read(knowledge_stats)).chunks == 1
        assert len(await docs.read(list_documents)) == 1
        assert (await ingest(docs.corpus())).documents["unchanged"] == 1
        assert (await plan(docs.corpus(embeds=False))).documents["unchanged"] == 1
        assert not search.done()
        work.release()
        assert len(await search) == 1


async def test_searches_do_not_wait_for_reads_or_ingests(service: KnowledgeService) -> None:
    """While all threads for reads, ingests and embedding are busy, searches run."""
    ours = threads_in(service)
    async with asyncio.timeout(60), AsyncExitStack() as stack:
        for name in ("read", "ingest", "embed"):
            await stack.enter_async_context(blocked(name, ours))
        assert len(await service.open("docs").query("alpha")) == 1


class Gated(Embeddings):
    """A model without async methods, whose calls for documents wait while `gate` is closed."""

    gate = threading.Event()
    begun = threading.Semaphore(0)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        Gated.begun.release()
        assert Gated.gate.wait(60)
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [1.0, float(len(text))]


@pytest.mark.parametrize("calls", [1, 40], ids=["one", "more than an executor has threads"])
async def test_questions_do_not_wait_for_the_calls_of_an_ingest(tmp_path: Path, calls: int) -> None:
    """While all calls of an ingest to the same embedder hang, questions are answered."""
    Gated.gate.set()
    embedder = {"id": "gated", "provider": "langchain", "class": f"{__name__}:Gated"}
    texts = [{"id": f"{number}", "text": f"text {number}"} for number in range(calls)]
    other = [{"id": "other", "text": "another text"}]
    data: dict[str, Any] = {
        "name": "support",
        "embedders": [embedder | {"max_concurrent": calls, "batch_size": 1}],
        "vector_dbs": [{"id": "main", "type": "sqlite"}],
        "knowledge_bases": [
            {"id": "docs", "sources": [{"type": "inline", "documents": other}]},
            {"id": "more", "sources": [{"type": "inline", "documents": texts}]},
        ],
    }
    service = KnowledgeService(build_project(data, root=tmp_path), Events([]))
    try:
        await ingest(service.open("docs").corpus())
        Gated.gate.clear()
        Gated.begun = threading.Semaphore(0)
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            ingesting = tasks.create_task(ingest(service.open("more").corpus()))
            for _ in texts:
                assert await call(Gated.begun.acquire, timeout=60)
            assert len(await service.open("docs").query("a question")) == 1
            assert not ingesting.done()
            Gated.gate.set()
    finally:
        Gated.gate.set()
        await service.close()


async def test_each_database_has_its_own_threads(service: KnowledgeService) -> None:
    """While all threads of other databases are busy, reads, searches and ingests run."""
    together = threads_of([Threads(), threads_in(service)])
    docs = service.open("docs")
    async with asyncio.timeout(60), AsyncExitStack() as stack:
        for name in LANES:
            for busy in (None, Threads(), together):
                await stack.enter_async_context(blocked(name, busy))
        assert len(await docs.query("alpha")) == 1
        assert len(await docs.read(list_documents)) == 1
        assert (await ingest(docs.corpus())).documents["unchanged"] == 1
        assert (await reindex(docs.corpus())).status == "completed"
        await add_documents(docs.corpus(), [{"id": "b.md", "text": "beta"}])
        await delete_document(docs.kb, "added:b.md")


def test_databases_that_are_searched_together() -> None:
    """One database is searched in its own threads, several together in threads that they share."""
    first, other = Threads(), Threads()
    assert threads_of([first, first]) is first
    assert threads_of([first, other]) is threads_of([other, first, other])
    assert threads_of([first, other]) not in (first, other)


@pytest.mark.parametrize("daemon", [False, True])
async def test_lanes_are_bounded(daemon: bool) -> None:
    """A lane runs as many functions as it has threads, however many are submitted."""
    threads = Threads(daemon=daemon)
    async with asyncio.timeout(60), blocked("search", threads, more=200) as work:
        await asyncio.sleep(0.05)
        assert work.calls == SIZES["search"]


async def test_a_cancelled_call_whose_turn_has_not_come() -> None:
    """A function that waits for a thread is not started if its caller is cancelled."""
    called: list[int] = []
    async with asyncio.timeout(60), blocked("search"):
        with lane("search"):
            waiting = asyncio.create_task(call(called.append, 1))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting  # while all threads are still busy
    with lane("search"):
        await call(called.append, 2)
    assert called == [2]


@pytest.mark.parametrize("name", LANES)
async def test_functions_that_wait_for_their_own_lane(name: Lane) -> None:
    """Functions in all threads of a lane can each wait for another function of the same lane."""
    here = threading.Barrier(SIZES[name])

    def outer(number: int) -> int:
        here.wait(60)  # all threads of the lane have arrived here
        nested = finish(call(inner, number))
        return bridge.run(call(inner, nested))

    def inner(number: int) -> int:
        return finish(call(abs, -number))

    async with asyncio.timeout(60):
        with lane(name):
            numbers = range(1, here.parties + 1)
            assert await asyncio.gather(*(call(outer, n) for n in numbers)) == list(numbers)


async def test_chunkers_that_wait_for_what_an_ingest_embeds() -> None:
    """Chunkers in all threads can wait for a vector that another ingest has yet to write."""
    embedder = CountingEmbedder()
    chunkers = SIZES["ingest"]
    embedding, release, ready = (
        threading.Event(),
        threading.Event(),
        threading.Barrier(chunkers + 1),
    )

    def slow(number: int) -> None:
        embedding.set()
        assert release.wait(60)

    embedder.before_batch = slow
    with contextlib.closing(Catalog()) as catalog:

        def chunk() -> int:
            ready.wait(60)
            return finish(catalog.embeddings.embed(embedder, ["shared"])).cache_hits

        async with asyncio.timeout(60):
            with lane("ingest"):
                first = asyncio.create_task(catalog.embeddings.embed(embedder, ["shared"]))
                await asyncio.to_thread(embedding.wait, 60)
                others = [asyncio.create_task(call(chunk)) for _ in range(chunkers)]
                await asyncio.to_thread(ready.wait, 60)
                release.set()
                assert (await first).texts_embedded == 1
                assert await asyncio.gather(*others) == [1] * chunkers
    assert embedder.texts == ["shared"]


async def test_a_lane_ends_with_its_block() -> None:
    """Tasks started in the block keep its lane; later code has the previous lane."""

    async def thread() -> str:
        return (await call(threading.current_thread)).name

    with lane("ingest"):
        begun = asyncio.create_task(thread())
        with lane("search"):
            assert (await thread()).startswith("lorebind-search-0")
        assert (await thread()).startswith("lorebind-ingest-0")
    assert (await thread()).startswith("lorebind-read-0")
    assert (await begun).startswith("lorebind-ingest-0")


def _output(program: str) -> str:
    done = run_program(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program], check=True
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_lanes_after_a_fork() -> None:
    """A child process whose parent's threads were all busy has its own threads."""
    printed = _output("""
import asyncio, os, threading
from lorebind_knowledge.plumbing import bridge
from lorebind_knowledge.plumbing.lanes import SIZES
size = SIZES["read"]
here, release = threading.Barrier(size + 1), threading.Event()
def block():
    here.wait()
    release.wait()
blocking = [
    threading.Thread(target=bridge.run, args=[bridge.call(block)]) for _ in range(size)
]
for thread in blocking:
    thread.start()
here.wait()
child = os.fork()
if not child:
    os._exit(7 if bridge.run(bridge.call(os.getpid)) == os.getpid() else 1)
status = os.waitpid(child, 0)[1]
release.set()
for thread in blocking:
    thread.join()
print(os.waitstatus_to_exitcode(status), bridge.run(bridge.call(abs, -3)))
""")
    assert printed.split() == ["7", "3"]


def test_the_process_ends_after_a_call_that_was_left() -> None:
    """The interpreter waits for a running function, not for idle threads."""
    printed = _output("""
import asyncio, threading
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.plumbing.lanes import lane
begun = threading.Event()
def work():
    begun.set()
    release.wait(0.2)
    print("worked")
release = threading.Event()
async def main():
    with lane("search"):
        await call(abs, -1)
    task = asyncio.create_task(call(work))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    await asyncio.sleep(0.01)
    task.cancel()
asyncio.run(main())
print("ended")
""")
    assert printed.split() == ["ended", "worked"]


def test_the_process_ends_while_a_daemon_thread_hangs() -> None:
    """The interpreter does not wait for the threads of a database that may hang."""
    printed = _output("""
import threading
from lorebind_knowledge.plumbing.lanes import Threads, submit
begun = threading.Event()
def hang():
    begun.set()
    threading.Event().wait()
with Threads(daemon=True).lane("read"):
    submit(hang)
    begun.wait()
    print(submit(abs, -3).result())
""")
    assert printed.split() == ["3"]


def test_idle_daemon_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that have nothing to do end after a while, and new ones start when needed."""
    monkeypatch.setattr(lanes, "_IDLE_SECONDS", 0.01)
    with Threads(daemon=True).lane("read"):
        for _ in range(3):
            thread = submit(threading.current_thread).result()
            thread.join(60)
            assert not thread.is_alive()


def test_functions_in_daemon_threads() -> None:
    """Each of many functions is called once, in its context, and its error is the caller's."""
    with Threads(daemon=True).lane("read"), tenant("acme"):
        futures = [submit(divmod, number, 7) for number in range(1000)]
        assert [future.result() for future in futures] == [divmod(n, 7) for n in range(1000)]
        assert submit(current_tenant).result() == "acme"
        with pytest.raises(ZeroDivisionError):
            submit(divmod, 1, 0).result()
