"""PostgreSQL's query plans right after an ingest, before it has statistics of the tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from lorebind_config.namespace import Namespace
from lorebind_knowledge.catalog.chunks import Chunks
from lorebind_knowledge.catalog.indexes import Manifest
from lorebind_knowledge.catalog.postings import WORDS
from lorebind_knowledge.catalog.segments import read_postings, read_segments, segments_of
from lorebind_knowledge.database.sql import Sql
from lorebind_knowledge.index.index import Index
from lorebind_knowledge.records import Record
from lorebind_knowledge.stores.memory import MemoryStore

from .every_catalog import in_postgres

HERE = Namespace("default", "test", "project", "docs")
DOCUMENTS, PASSAGES = 1000, 5
FILLER = "and so on " * 40


class Explained(Sql):
    """Returns the plan of each statement instead of its rows."""

    plan = ""

    def run(self, statement: str, **values: Any) -> list[Any]:
        lines = super().run(f"explain analyze {statement}", **values)
        self.plan = "\n".join(line for (line,) in lines)
        return []

    run_binary = run


@pytest.fixture
def index(dsn: str) -> Iterator[Index]:
    """Yield an index of 5,000 passages in which 20 words are frequent."""
    index = Index(MemoryStore(), in_postgres(dsn))
    with closing(index), index.catalog.lease(HERE) as lease:
        entry = index.catalog.ledger.create_index(lease, Manifest("tests", "tests-1", 2, "whole"))
        with index.catalog.writing(lease) as sql:
            # Otherwise the server might collect statistics in the meantime.
            sql.run("alter table catalog_chunks set (autovacuum_enabled = false)")
        for start in range(0, DOCUMENTS, 100):
            uris = [f"{number}.md" for number in range(start, start + 100)]
            records = [
                Record(
                    id=f"{uri}#{part}",
                    index=entry.key,
                    uri=uri,
                    text=f"word{(part * 7 + len(uri)) % 20} number{part} of {uri} {FILLER}",
                    vector=np.array([1, 0], np.float32),
                    metadata={},
                    generation=1,
                )
                for uri in uris
                for part in range(PASSAGES)
            ]
            index.stage(lease, entry, records)
            index.publish(lease, entry, dict.fromkeys(uris, 1))
        index.catalog.ledger.activate_index(lease, entry.key)
        yield index


def test_chunks_are_looked_up_by_their_numbers(index: Index) -> None:
    """Chunks are looked up by number, instead of reading the chunks of all versions."""
    entry = index.catalog.ledger.index(HERE, "active")
    assert entry is not None
    with index.catalog.reading() as sql:
        explained = Explained(sql.driver)
        chunks = Chunks(explained, entry.index_uid)
        for look_up in (chunks.members, chunks.without_texts, chunks.chunks):
            look_up(range(100, 400))
            (loops,) = re.findall(r"on catalog_chunks c .* loops=(\d+)", explained.plan)
            assert loops == "1", explained.plan


def test_many_chunks_are_looked_up_without_the_rest(index: Index) -> None:
    """As many chunks as a search compares are looked up without all versions, or their texts."""
    entry = index.catalog.ledger.index(HERE, "active")
    assert entry is not None
    index.finish_load(entry)
    with index.catalog.reading() as sql:
        explained = Explained(sql.driver)
        chunks = Chunks(explained, entry.index_uid)
        for look_up in (chunks.members, chunks.without_texts):
            look_up(range(100, 400))
            assert "Seq Scan on catalog_versions" not in explained.plan, explained.plan
        chunks.members(range(100, 400))
        assert "Index Only Scan using catalog_chunks_number" in explained.plan, explained.plan


def test_counted_at_the_end(index: Index) -> None:
    """At the end of a large ingest, the server collects statistics."""
    entry = index.catalog.ledger.index(HERE, "active")
    assert entry is not None
    counted = "select reltuples from pg_class where oid = to_regclass('catalog_chunks')"

    def count() -> float:
        with index.catalog.reading() as sql:
            return float(sql.run(counted)[0][0])

    assert count() < DOCUMENTS * PASSAGES
    index.finish_load(entry)
    assert count() == DOCUMENTS * PASSAGES


def test_postings_are_looked_up_by_their_terms(index: Index) -> None:
    """Looking up terms does not read all terms of the index."""
    entry = index.catalog.ledger.index(HERE, "active")
    assert entry is not None
    index.finish_load(entry)
    with index.catalog.reading() as sql:
        segments = read_segments(sql, segments_of(sql, entry.index_uid, WORDS))
        sql.run("set local enable_hashjoin = off")  # which is as fast in so small a table
        sql.run("set local enable_mergejoin = off")
        explained = Explained(sql.driver)
        assert list(read_postings(explained, segments, {"number3": segments})) == []
    condition = r"catalog_postings_pkey .*\n +Index Cond: \(\(segment = .* AND \(\(first_term\)"
    assert re.search(condition, explained.plan), explained.plan
