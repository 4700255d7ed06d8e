"""Fixtures for tests of an index's catalog: any store, with every kind of catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.schema import CATALOG
from lorebind_knowledge.database.databases import PostgresDatabase
from lorebind_knowledge.database.postgres_address import PostgresAddress
from lorebind_knowledge.testing.index_driver import IndexTests

from .plain_stores import PlainStore


class OnEveryCatalog(IndexTests):
    @pytest.fixture
    def store(self) -> PlainStore:
        return PlainStore()

    @pytest.fixture(params=["memory", "file", "postgres"])
    def make_catalog(
        self, request: pytest.FixtureRequest, tmp_path: Path
    ) -> Iterator[Callable[[], Catalog]]:
        """Return a function that makes catalogs of the same data; in memory, always the same."""
        catalogs: list[Catalog] = []

        def make() -> Catalog:
            match request.param:
                case "file":
                    catalogs.append(Catalog(tmp_path / "catalog.db"))
                case "postgres":
                    catalogs.append(in_postgres(request.getfixturevalue("dsn")))
                case "memory" if not catalogs:
                    catalogs.append(Catalog())
            return catalogs[-1]

        yield make
        for catalog in catalogs:
            catalog.close()


def in_postgres(dsn: str) -> Catalog:
    return Catalog(postgres=PostgresDatabase(PostgresAddress(dsn), CATALOG))
