"""Searches while documents are edited and ingested: each is found whole, in one of its versions."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.schema import CATALOG
from lorebind_knowledge.database.databases import PostgresDatabase
from lorebind_knowledge.database.postgres_address import PostgresAddress
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.stores import MemoryStore, SqliteStore
from lorebind_knowledge.stores.pgvector.store import PgvectorStore
from tests.knowledge.bench import Bench, paragraph

from .trials import Trials

State = dict[str, list[str]]
"""The texts of each document, sorted; documents without texts are omitted."""

SEARCHES = 54
"""Minimum number of searches per case."""
BETWEEN_BATCHES = 2
"""Number of searches that an ingest waits for before each batch of embedded texts."""
NAMES = [f"{number}.md" for number in range(7)]
STRATEGIES = ("similarity", "lexical", "hybrid", "mmr")
VERBS = ("upsert", "upsert", "replace", "reindex")


class Scene:
    """A writer that edits and ingests, and readers that search continuously."""

    def __init__(self, case: random.Random, benches: list[Bench]) -> None:
        self._case, self._writer = case, benches[0]
        self._benches = [bench for bench in benches for _ in range(2 // len(benches))]
        self._states: list[State] = []
        """The state that each ingest has led to or will lead to, including the first one."""
        self._in_one_step: list[bool] = []
        """Whether all changes of each ingest become visible together."""
        self._searches = 0
        self._readers: list[asyncio.Task[None]] = []
        for bench in benches:
            bench.change(dedupe=False)

    async def run(self) -> None:
        self._edit("upsert")
        await self._writer.ingest()
        self._writer.embedder.before_batch = self._wait_for_searches
        self._readers = [
            asyncio.create_task(self._read(bench, random.Random(self._case.random())))
            for bench in self._benches
        ]
        try:
            for _ in range(self._case.randint(1, 3)):
                verb = self._case.choice(VERBS)
                self._edit(verb)
                if verb == "reindex":
                    await self._writer.reindex()
                else:
                    await self._writer.ingest(strategy=verb, allow_mass_delete=True)
            await call(self._wait_until, SEARCHES)
        finally:
            for reader in self._readers:
                reader.cancel()
            ended = await asyncio.gather(*self._readers, return_exceptions=True)
        for error in ended:
            if not isinstance(error, asyncio.CancelledError):
                raise error or AssertionError("a reader has ended")

    def _edit(self, verb: str) -> None:
        """Rewrite some documents, and add or remove one; none is removed for a reindex."""
        case, version = self._case, len(self._states)
        state = dict(self._states[-1]) if self._states else {}
        if len(state) > 2 and verb != "reindex":
            gone = case.choice(sorted(state))
            del state[gone]
            self._writer.remove(gone.removeprefix("docs/"))
        for name in case.sample(NAMES, case.randint(3, 6)):
            texts = [paragraph(f"v{version}{name}{part}") for part in range(case.randint(1, 5))]
            texts += case.choice([[], [paragraph(f"ever{name}")]])
            self._writer.write(name, *texts)
            state[f"docs/{name}"] = sorted(texts)
        self._states.append(state)
        self._in_one_step.append(verb != "upsert")

    def _wait_for_searches(self, batch: int) -> None:
        self._wait_until(self._searches + BETWEEN_BATCHES)

    def _wait_until(self, searches: int) -> None:
        while self._searches < searches and not self._failed():
            time.sleep(0.0005)

    def _failed(self) -> bool:
        return any(reader.done() for reader in self._readers)

    async def _read(self, bench: Bench, chance: random.Random) -> None:
        newest: dict[str, int] = defaultdict(int)
        """The oldest version of each document that a search may still find."""
        while True:
            first = max(len(self._states) - 2, 0)
            strategy = chance.choice(STRATEGIES)
            served = await self._search(bench, strategy)
            states = self._states[first:]
            if all(self._in_one_step[first + 1 :]):
                assert served in states
            for uri in {uri for state in states for uri in state} | served.keys():
                versions = [
                    first + at
                    for at, state in enumerate(states)
                    if served.get(uri) == state.get(uri) and first + at >= newest[uri]
                ]
                assert versions, (strategy, uri, served.get(uri))
                newest[uri] = versions[0]
            self._searches += 1

    async def _search(self, bench: Bench, strategy: str) -> State:
        by_uri: State = defaultdict(list)
        answer: Any = await bench.ask("and some more words", top_k=50, strategy=strategy)
        for match in answer.matches:
            by_uri[match.metadata["uri"]].append(match.text)
        return {uri: sorted(texts) for uri, texts in by_uri.items()}


def parts(kind: str, root: Path, dsn: str) -> tuple[Any, Catalog]:
    """Create a store and its catalog."""
    match kind:
        case "memory":
            return MemoryStore(), Catalog()
        case "sqlite":
            path = root / ".lorebind" / "lorebind.db"
            return SqliteStore(path), Catalog(path)
        case _:
            database = PostgresDatabase(PostgresAddress(dsn), CATALOG)
            return PgvectorStore(dsn), Catalog(postgres=database)


@pytest.mark.enable_socket
@pytest.mark.parametrize(
    ("kind", "short", "full"), [("memory", 2, 60), ("sqlite", 2, 60), ("pgvector", 1, 37)]
)
def test_searches(
    trials: Trials,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    kind: str,
    short: int,
    full: int,
) -> None:
    """No search fails, mixes versions of a document, or finds an older version than before."""
    new_dsn: Callable[[], str] = str
    if kind == "pgvector":
        new_dsn = request.getfixturevalue("new_dsn")
    folders = itertools.count()

    def check(case: random.Random) -> None:
        root, dsn = tmp_path / str(next(folders)), new_dsn()
        # If a store can be opened twice, the readers also use one of their own.
        benches = [
            Bench(root, lambda: parts(kind, root, dsn)) for _ in range(1 if kind == "memory" else 2)
        ]
        try:
            asyncio.run(Scene(case, benches).run())
        finally:
            for bench in benches:
                bench.index.close()

    trials.run(f"{SEARCHES} searches during ingests, {kind}", check, short=short, full=full)
