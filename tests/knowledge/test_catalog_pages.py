"""A page of documents or runs is read without reading the others, however many there are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from lorebind_config.namespace import IndexKey, Namespace, document_id
from lorebind_knowledge.catalog.added import AddedDocument
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.indexes import Manifest
from lorebind_knowledge.catalog.ledger import DocumentEntry
from lorebind_knowledge.catalog.runs import Runs
from lorebind_knowledge.database.sql import Sql
from lorebind_knowledge.documents.listing import (
    count_documents,
    find_document,
    list_documents,
    list_runs,
)

from .every_catalog import in_postgres

HERE = Namespace("default", "test", "project", "docs")
KEY = IndexKey(HERE, 1)
DOCUMENTS, RUNS = 5000, 300
MIDDLE = "docs/2500.md"


class Measured(Sql):
    """A measure of how much is read: rows in PostgreSQL, virtual machine steps in SQLite."""

    read = 0

    def run(self, statement: str, **values: Any) -> list[Any]:
        if self.is_postgres:
            lines = super().run(f"explain analyze {statement}", **values)
            plan = "\n".join(line for (line,) in lines)
            for rows, loops in re.findall(r"actual time=\S+ rows=(\S+) loops=(\d+)", plan):
                self.read += int(float(rows) * int(loops))
            self.read += sum(map(int, re.findall(r"Rows Removed by .*: (\d+)", plan)))
            return super().run(statement, **values)
        self.driver.set_progress_handler(self._step, 1)
        try:
            return super().run(statement, **values)
        finally:
            self.driver.set_progress_handler(None, 0)

    def _step(self) -> None:
        self.read += 1


@pytest.fixture(params=["memory", "file", "postgres"], scope="module")
def catalog(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Catalog]:
    """A catalog of many documents, few of them failed; PostgreSQL has no statistics yet."""
    if request.param == "postgres":
        full = in_postgres(request.getfixturevalue("new_dsn")())
    else:
        full = Catalog(
            tmp_path_factory.mktemp("catalog") / "x.db" if request.param == "file" else None
        )
    with closing(full), full.lease(HERE) as lease:
        assert full.ledger.create_index(lease, Manifest("t", "t-1", 2, "whole")).key == KEY
        entries = [
            DocumentEntry(f"docs/{n:04}.md", "s", state="failed" if n % 1000 == 999 else "ready")
            for n in range(DOCUMENTS)
        ]
        full.ledger.put_documents(lease, KEY, entries, "run")
        full.added.put(
            HERE, [AddedDocument(entry.uri, b"x", "text/plain", {}) for entry in entries[::2]]
        )
        for _ in range(RUNS):
            full.ledger.finish_run(lease, full.ledger.start_run(lease, "upsert"), "completed", {})
        yield full


def read_by(catalog: Catalog, ask: Callable[[Any], object]) -> int:
    """Return how much is read when `ask` queries this catalog."""
    transactions: list[Measured] = []

    @contextmanager
    def reading() -> Iterator[Measured]:
        with catalog.reading() as sql:
            transactions.append(Measured(sql.driver))
            yield transactions[-1]

    runs: Any = Runs(SimpleNamespace(reading=reading))  # type: ignore[arg-type]
    measured = SimpleNamespace(
        reading=reading, ledger=catalog.ledger, added=catalog.added, runs=runs
    )
    ask(measured)
    return sum(transaction.read for transaction in transactions)


@pytest.mark.parametrize(
    "ask",
    [
        partial(list_documents, HERE, limit=20),
        partial(list_documents, HERE, limit=20, after=MIDDLE),
        partial(list_documents, HERE, limit=20, before=MIDDLE),
        partial(list_documents, HERE, limit=20, after="docs/4979.md"),
        partial(list_documents, HERE, limit=20, state="ready"),
        partial(list_documents, HERE, limit=20, state="failed"),
        partial(find_document, HERE, document=MIDDLE),
        partial(find_document, HERE, document=document_id(MIDDLE)),
        partial(list_runs, HERE, limit=20),
        lambda catalog: list_runs(HERE, catalog, 20, catalog.runs.list(HERE, 1)[0].run_id),
    ],
)
def test_little_is_read(catalog: Catalog, ask: Callable[[Any], object]) -> None:
    """A page takes under 150 rows in PostgreSQL, and 1,000 virtual machine steps in SQLite."""
    assert 0 < read_by(catalog, ask) < (150 if is_postgres(catalog) else 1000)


def test_texts_and_formats(catalog: Catalog) -> None:
    """A part of the uri selects documents, in any case of letters, and no pattern is read in it."""

    def uris(**options: Any) -> list[str]:
        return [info.uri for info in list_documents(HERE, catalog, **options)]

    assert uris(q="CS/100") == [f"docs/100{digit}.md" for digit in range(10)]
    assert uris(q="cs/100", limit=2, after="docs/1004.md") == ["docs/1005.md", "docs/1006.md"]
    assert uris(q="cs/100", limit=2, before="docs/1004.md") == ["docs/1002.md", "docs/1003.md"]
    assert uris(q="9.md", state="failed", limit=1) == ["docs/0999.md"]
    assert uris(q="docs_") == uris(q="%") == uris(q="1000", format="pdf") == []


def test_counting_reads_all(catalog: Catalog) -> None:
    """Counting reads all documents once; added ones are looked up by key, without statistics."""
    assert read_by(catalog, partial(count_documents, HERE)) in range(DOCUMENTS, 50 * DOCUMENTS)


def is_postgres(catalog: Catalog) -> bool:
    with catalog.reading() as sql:
        return sql.is_postgres
