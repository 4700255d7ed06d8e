"""The limits of an embedder that all processes keep together, in PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lorebind_config.reading.loading import build_project
from lorebind_knowledge.catalog.call_rates import CallRates
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.schema import CATALOG
from lorebind_knowledge.catalog.shared_pace import SharedPace
from lorebind_knowledge.database.databases import PostgresDatabase
from lorebind_knowledge.database.postgres_address import PostgresAddress
from lorebind_knowledge.embedders.base import Fingerprint, embed_query
from lorebind_knowledge.resilience.limits import Pace
from lorebind_knowledge.service import KnowledgeService
from tests.processes import run_program

from .embedding_server import EmbeddingServer, embedding_server, refusal
from .every_catalog import in_postgres

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

SLOW = 0.01
"""Calls per second: so few that no time passes during a test."""


@pytest.fixture
def catalog(dsn: str) -> Iterator[Catalog]:
    """A catalog whose tables exist."""
    catalog = in_postgres(dsn)
    assert catalog.call_rates is not None
    catalog.call_rates.hold_back("none", 0)
    yield catalog
    catalog.close()


@pytest.fixture
def rates(catalog: Catalog) -> CallRates:
    assert catalog.call_rates is not None
    return catalog.call_rates


def near(*seconds: float) -> Any:
    return pytest.approx(list(seconds), abs=20)


def test_turns_are_taken_in_order(rates: CallRates) -> None:
    """A burst begins at once, every further call one step later; keys do not share."""
    assert [rates.take("a", SLOW, 2) for _ in range(4)] == near(0, 0, 100, 200)
    assert rates.take("b", SLOW, 1) == 0
    rates.give_back("a", SLOW)
    assert [rates.take("a", SLOW, 2)] == near(200)


def test_turns_of_many_threads(rates: CallRates) -> None:
    """Each caller gets a turn of its own."""
    with ThreadPoolExecutor(8) as threads:
        waits = list(threads.map(lambda _: rates.take("a", SLOW, 1), range(16)))
    assert sorted(waits) == near(*(100.0 * turn for turn in range(16)))


def test_a_pause_does_not_add_up(rates: CallRates, dsn: str) -> None:
    """After a long pause, no more calls than a burst begin at once."""
    rates.take("a", SLOW, 2)
    database = PostgresDatabase(PostgresAddress(dsn), CATALOG)
    with database.writing() as sql:
        sql.run("update catalog_call_rates set due = due - 1e6")
    database.close()
    assert [rates.take("a", SLOW, 2) for _ in range(3)] == near(0, 0, 100)


def test_the_provider_asks_to_wait(rates: CallRates) -> None:
    """No turn comes before that, later ones are spread, and a shorter wait changes nothing."""
    assert rates.held_back("a") == 0
    rates.hold_back("a", 1000)
    rates.hold_back("a", 10)
    assert [rates.take("a", SLOW, 1) for _ in range(3)] == near(1000, 1100, 1200)
    assert [rates.held_back("a")] == near(1000)
    assert rates.held_back("b") == 0


def shared(catalog: Catalog, per_minute: float | None, **settings: Any) -> SharedPace:
    return SharedPace(
        Pace(per_minute, **settings), lambda: Fingerprint("fake", "model"), lambda: catalog
    )


async def test_a_cancelled_caller_gives_its_turn_back(catalog: Catalog) -> None:
    """The turn of a caller that no longer waits goes to the next one."""
    waits: list[float] = []
    waiting = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        waiting.set()
        await asyncio.Event().wait()

    await shared(catalog, 60 * SLOW).turn()
    for _ in range(2):
        caller = asyncio.create_task(shared(catalog, 60 * SLOW, sleep=sleep).turn())
        await asyncio.wait_for(waiting.wait(), 30)
        waiting.clear()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
    assert waits == near(100, 100)


async def test_a_catalog_that_does_not_exist(dsn: str) -> None:
    """Without a catalog, calls are limited in this process, and no tables are created."""
    catalog = in_postgres(dsn)
    for per_minute in (None, 60_000):
        await shared(catalog, per_minute).turn()
        await shared(catalog, per_minute).hold_back(0)
    assert catalog.call_rates is not None
    assert not catalog.call_rates.can_be_stored()
    catalog.close()


async def test_a_catalog_that_does_not_answer() -> None:
    """An outage fails no call, and is not looked at again for each."""
    dead = in_postgres("postgresql://nobody@127.0.0.1:9/nothing")
    pace = shared(dead, 60_000)
    await pace.turn()
    assert pace.clock() < pace._ask_at
    await pace.turn()
    await pace.hold_back(0)
    dead.close()


PROJECT = {
    "name": "shop",
    "vector_dbs": [{"id": "pg", "type": "pgvector", "config": {"dsn": "{{ .env.PG_DSN }}"}}],
}
EMBEDDER = {"id": "api", "provider": "openai", "model": "small"}
CALLS = """
import asyncio, json, os, sys
from pathlib import Path
import langchain_openai  # takes a second, so both processes import it together
from lorebind_config.reading.loading import build_project
from lorebind_knowledge.embedders.base import embed_query
from lorebind_knowledge.service import KnowledgeService

declared, root, environ, calls = json.loads(sys.argv[1])

async def main():
    service = KnowledgeService(build_project(declared, root=Path(root), environ=environ))
    embedder = service.embedder()
    for call in range(calls):
        await embed_query(embedder, f"text {call}")
    await service.close()

other = os.fork()
asyncio.run(main())
if other:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]))
"""


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as server:
        yield server


def declared(server: EmbeddingServer, **config: Any) -> dict[str, Any]:
    return PROJECT | {"embedders": [EMBEDDER | {"config": {"base_url": server.url, **config}}]}


def test_two_processes_share_the_limit(
    catalog: Catalog, server: EmbeddingServer, tmp_path: Path, dsn: str
) -> None:
    """Together, they call the provider no more often than one alone may."""
    at: list[float] = []
    server.gate = lambda: at.append(time.monotonic())
    calls, per_second = 10, 5
    project = declared(server, requests_per_minute=60 * per_second)
    settings = json.dumps([project, str(tmp_path), {"PG_DSN": dsn}, calls])
    run_program([sys.executable, "-c", CALLS, settings], check=True)
    assert len(at) == 2 * calls
    # After the burst of a second, every call has waited for its turn, 3 s in all. With a limit for
    # each process, it would be 1 s. The first call can be late, because it opens the connection.
    assert max(at) - min(at) > 2


async def test_a_refusal_holds_for_other_processes(
    catalog: Catalog, server: EmbeddingServer, tmp_path: Path, dsn: str
) -> None:
    """`Retry-After` is kept by embedders that share nothing but the catalog."""
    at: list[float] = []
    server.gate = lambda: at.append(time.monotonic())
    server.replies.append(refusal(429, "slow down", Retry_After="2"))
    project = declared(server, retry={"attempts": 1})
    services = [
        KnowledgeService(build_project(project, root=tmp_path, environ={"PG_DSN": dsn}))
        for _ in range(2)
    ]
    first, second = (service.embedder() for service in services)
    with pytest.raises(Exception, match="slow down"):
        await embed_query(first, "a")
    await embed_query(second, "b")
    assert at[1] - at[0] > 1.9
    for service in services:
        await service.close()
