"""Ways to damage a project's database with SQL, each by a name."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NAN = f"x'{'0000c07f' * 256}'"
INFINITY = f"x'{'0000807f' * 256}'"
"""Vectors of the dimension that the test project has."""

LOUD: dict[str, str] = {
    "manifest, no JSON": "update catalog_indexes set manifest = '{\"embedder\"'",
    "manifest, another shape": "update catalog_indexes set manifest = '[1, 2]'",
    "manifest, empty": "update catalog_indexes set manifest = '{}'",
    "manifest, null": "update catalog_indexes set manifest = 'null'",
    "manifest, a type": "update catalog_indexes set manifest ="
    " json_set(manifest, '$.dimension', 'many')",
    "number of the index": "update catalog_indexes set number = 'one'",
    "version of the catalog": "update catalog_version set version = 0",
    "version of the store": "update vector_schema set version = 'three'",
    "no version of the store": "delete from vector_schema",
    "dimension of the index": "update vector_indexes set dimension = 7",
    "key of the index": "update vector_indexes set key = key + 100",
    "metadata, no JSON": "update vector_records set metadata = 'none'",
    "metadata, another shape": "update vector_records set metadata = '[]'",
    "metadata without a uri": "update vector_records set metadata = '{}'",
    "metadata, a number": "update vector_records set metadata = 7",
    "text, bytes": "update vector_records set text = x'ff00'",
    "text, a number": "update vector_records set text = x'ff', metadata = x'ff'",
    "vector, cut short": "update vector_records set vector = substr(vector, 1, 10)",
    "vector, empty": "update vector_records set vector = x''",
    "vector, a text": "update vector_records set vector = 'garbage'",
    "vector, NaN": f"update vector_records set vector = {NAN}",
    "vector, infinity": f"update vector_records set vector = {INFINITY}",
    "generation, a text": "update vector_records set generation = 'first'",
    "no table of records": "drop table vector_records",
    "no table of words": "drop table vector_words_1",
    "no column of texts": "alter table vector_records rename column text to words",
    "no index of records": "drop index vector_records_live",
    "words, garbage": f"update vector_words_1_data set block = x'{'ff' * 20}'",
    "no table of indexes": "drop table vector_indexes",
}
"""Ways to damage what a query needs, in SQL."""

QUIET: dict[str, str] = {
    "chunk ids, no JSON": "update catalog_documents set chunk_ids = '['",
    "chunk ids, another shape": "update catalog_documents set chunk_ids = '{\"a\": 1}'",
    "chunk ids, numbers": "update catalog_documents set chunk_ids = '[1]'",
    "generation of a document": "update catalog_documents set generation = 'first'",
    "count of chunks": "update catalog_documents set chunk_count = 'many'",
    "title, bytes": "update catalog_documents set title = x'ff'",
    "time of a document": "update catalog_documents set updated_at = 'noon'",
    "time of a run": "update catalog_runs set started_at = 'noon'",
    "report of a run": "update catalog_runs set report = '{'",
    "no table of runs": "drop table catalog_runs",
    "no table of documents": "drop table catalog_documents",
    "no column of signatures": "alter table catalog_documents rename column signature to s",
    "cached vector, NaN": f"update catalog_embeddings set vector = {NAN}",
    "cached vector, short": "update catalog_embeddings set vector = x'00'",
    "cached vector, a text": "update catalog_embeddings set vector = 'garbage'",
    "day of use": "update catalog_embeddings set used_on = 'monday', size = 'much'",
}
"""Ways that a query may not notice."""


def change(file: Path, statement: str) -> None:
    """Run a statement on a database file."""
    with closing(sqlite3.connect(file)) as db, db:
        db.execute(statement)
