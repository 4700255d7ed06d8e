"""Fixtures that several test files share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.schema import CATALOG
from lorebind_knowledge.database.databases import PostgresDatabase
from lorebind_knowledge.database.postgres_address import PostgresAddress
from lorebind_knowledge.embedders.local import LocalEmbedder
from lorebind_knowledge.plumbing.bridge import run
from lorebind_knowledge.stores.memory import MemoryStore
from lorebind_knowledge.stores.sqlite import SqliteStore

from .bench import Bench, CountingEmbedder, Diary
from .web_server import WebServer


@pytest.fixture(scope="session")
def local() -> LocalEmbedder:
    """Load the real model once."""
    return LocalEmbedder()


@pytest.fixture
def db(dsn: str) -> Iterator[psycopg.Connection]:
    """Return a connection to the new database of a test."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
def diary() -> Diary:
    return Diary()


@pytest.fixture
def make_bench(tmp_path: Path) -> Iterator[Callable[[str], Bench]]:
    """Create benches by the kind of their store, each in its own folder; close them at the end."""
    benches: list[Bench] = []

    def make(kind: str) -> Bench:
        root = tmp_path / f"project{len(benches)}"
        root.mkdir()
        path = root / ".lorebind" / "lorebind.db"
        if kind == "memory":
            benches.append(Bench(root, lambda: (MemoryStore(), Catalog())))
        else:
            benches.append(Bench(root, lambda: (SqliteStore(path), Catalog(path))))
        return benches[-1]

    async def close() -> None:
        for bench in benches:
            bench.index.close()

    yield make
    run(close())


@pytest.fixture(params=["memory", "sqlite"])
def bench(request: pytest.FixtureRequest, make_bench: Callable[[str], Bench]) -> Bench:
    """A bench on each embedded store."""
    return make_bench(request.param)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a project's catalog."""
    return tmp_path / ".lorebind" / "lorebind.db"


@pytest.fixture(params=["memory", "file", "postgres"])
def catalog(request: pytest.FixtureRequest, path: Path) -> Iterator[Catalog]:
    """A catalog of each kind."""
    if request.param == "postgres":
        address = PostgresAddress(request.getfixturevalue("dsn"))
        catalog = Catalog(postgres=PostgresDatabase(address, CATALOG))
    else:
        catalog = Catalog(path if request.param == "file" else None)
    yield catalog
    catalog.close()


@pytest.fixture
def servers(socket_enabled: None) -> Iterator[Callable[..., WebServer]]:
    """Starts servers, which are closed at the end."""
    started: list[WebServer] = []

    def start(*args: Any, **kwargs: Any) -> WebServer:
        started.append(WebServer(*args, **kwargs))
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture
def server(servers: Callable[..., WebServer]) -> WebServer:
    return servers()
