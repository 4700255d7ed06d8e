"""Batches of texts, and the workers that embed them, in one process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from lorebind_config.namespace import PROJECT_SCOPE, Namespace
from lorebind_knowledge.catalog.batches import About, Batch, Batches
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.leases import Lease
from lorebind_knowledge.embedders.base import Embedder, Fingerprint
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.scale.engine import make_engine
from lorebind_knowledge.scale.pool import VERSION
from lorebind_knowledge.scale.work import Work
from lorebind_knowledge.scale.worker import Worker

from .every_catalog import in_postgres

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

LEASE = Lease(Namespace("default", "shop", PROJECT_SCOPE, "docs"), 1)


class Provider(Embedder):
    """Calls a function before it answers. Its method blocks, as those of local models do."""

    max_concurrent = 64

    def __init__(self, name: str, before: Callable[[], object]) -> None:
        self._name, self._before = name, before

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint("fake", self._name, dimension=2)

    def embed_documents(self, texts: Sequence[str]) -> Any:
        self._before()
        return [[1.0, float(len(text))] for text in texts]

    def embed_query(self, text: str) -> Any:
        return [1.0, float(len(text))]


class TooManyError(Exception):
    """The answer of a provider that limits its callers."""

    status_code = 429
    headers = {"retry-after": "60"}  # noqa: RUF012 - as of a client's exception


def fail(error: Exception) -> None:
    raise error


@pytest.fixture
def catalog(dsn: str) -> Iterator[Catalog]:
    catalog = in_postgres(dsn)
    yield catalog
    catalog.close()


@pytest.fixture
def batches(catalog: Catalog) -> Batches:
    assert catalog.postgres is not None
    return Batches(catalog.postgres)


async def add(batches: Batches, key: str, names: Sequence[str]) -> None:
    """Store batches of one text each, as of an ingest whose lease is not checked."""
    about = About("default", "docs", key, VERSION)
    rows = [Batch(name, key, about, [f"text of {name}"]) for name in names]
    await call(batches.add, LEASE, rows, lambda sql, lease: None)


async def test_blocking_calls_do_not_occupy_the_threads_of_renewals(
    catalog: Catalog, batches: Batches
) -> None:
    """More calls than any other lane has threads run at the same time, and are renewed."""
    count = 40
    together, renewed = threading.Barrier(count + 1), threading.Event()

    def wait() -> None:
        together.wait(60)
        assert renewed.wait(60)

    names = [str(number) for number in range(count)]
    await add(batches, "key", names)
    work = Work(catalog, {"key": Provider("waits", wait)})
    async with asyncio.timeout(60):
        working = asyncio.gather(*map(work, names))
        await asyncio.to_thread(together.wait, 60)  # all have begun
        assert await call(batches.renew, names[0], work.name)
        renewed.set()
        assert all(await working)
    assert await call(batches.collect, names) == dict.fromkeys(names, "")


@pytest.mark.parametrize("error", [TooManyError(), ValueError("broken")], ids=["limited", "broken"])
async def test_a_provider_in_trouble_delays_no_other(
    catalog: Catalog, batches: Batches, error: Exception
) -> None:
    """With one slot for each embedder, the texts of others are embedded; none loses an attempt."""
    assert catalog.postgres is not None
    embedders = {
        "bad": Provider("bad", lambda: fail(error)),
        "good": Provider("good", lambda: None),
    }
    engine: Any = make_engine("distributed", catalog.postgres)
    bad, good = ["b1", "b2", "b3"], ["g1", "g2", "g3"]
    for key, names in (("bad", bad), ("good", good)):
        await add(batches, key, names)
        await call(engine.submit, key, names)
    worker = Worker([(catalog, engine, embedders)], concurrency=1)
    running = asyncio.create_task(worker.run())
    done: dict[str, str] = {}
    async with asyncio.timeout(60):
        while len(done) < (3 if isinstance(error, TooManyError) else 6):
            done |= await call(batches.collect, [*bad, *good])
            await asyncio.sleep(0.02)
        worker.stop()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert [done[name] for name in good] == ["", "", ""]
    if isinstance(error, TooManyError):
        assert done.keys() == set(good)
        taken = await call(batches.take, "b1", "another worker", ["bad"])
        assert taken is not None, "it was given back"
    else:
        assert all("ValueError: broken" in done[name] for name in bad)
    engine.close()
