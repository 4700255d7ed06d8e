"""The engines that deliver batches to workers pass the conformance kit that ships for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from lorebind_knowledge.catalog.schema import CATALOG
from lorebind_knowledge.database.databases import PostgresDatabase
from lorebind_knowledge.database.postgres_address import PostgresAddress
from lorebind_knowledge.scale.engine import Engine
from lorebind_knowledge.scale.procrastinate import ProcrastinateEngine
from lorebind_knowledge.testing import EngineConformance


@pytest.fixture(scope="module")
def make_procrastinate(new_dsn: Callable[[], str]) -> Iterator[Callable[[], Engine]]:
    """Yield a function that makes engines whose workers count as dead after .6 seconds."""
    dsn = new_dsn()
    with ExitStack() as stack:

        def make() -> Engine:
            catalog = PostgresDatabase(PostgresAddress(dsn), CATALOG)
            stack.callback(catalog.close)
            return ProcrastinateEngine(catalog, heartbeat_seconds=0.2)

        yield make


class TestProcrastinate(EngineConformance):
    @pytest.fixture
    def make_engine(self, make_procrastinate: Callable[[], Engine]) -> Callable[[], Engine]:
        return make_procrastinate
