"""Named ways to damage a project's database with SQL."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

NAN = f"x'{'0000c07f' * 256}'"
INFINITY = f"x'{'0000807f' * 256}'"
"""A vector of infinities, with the dimension of the test project."""

LOUD: dict[str, str] = {
    "manifest, no JSON": "update catalog_indexes set manifest = '{\"embedder\"'",
    "manifest, another shape": "update catalog_indexes set manifest = '[1, 2]'",
    "manifest, empty": "update catalog_indexes set manifest = '{}'",
    "manifest, null": "update catalog_indexes set manifest = 'null'",
    "manifest, a type": "update catalog_indexes set manifest ="
    " json_set(manifest, '$.dimension', 'many')",
    "number of the index": "update catalog_indexes set number = 'one'",
    "version of the catalog": "update catalog_schema set version = 0",
    "index_uid of the index": "update catalog_indexes set index_uid = 'first'",
    "index_uid, another": "update catalog_indexes set index_uid = index_uid + 1",
    "state of the index": "update catalog_indexes set live = 'all', entered = 'all'",
    "version of the index": "update catalog_indexes set version = 'latest'",
    "mark of the sweeper": "update catalog_indexes set swept = 'none'",
    "metadata, no JSON": "update catalog_chunks set metadata = 'none'",
    "metadata, another shape": "update catalog_chunks set metadata = '[]'",
    "metadata without a uri": "update catalog_chunks set metadata = '{}'",
    "metadata, a number": "update catalog_chunks set metadata = 7",
    "text, bytes": "update catalog_chunks set text = x'ff00'",
    "text, a number": "update catalog_chunks set text = x'ff', metadata = x'ff'",
    "id, bytes": "update catalog_chunks set id = x'ff'",
    "number, a text": "update catalog_chunks set number = 'seven'",
    "number, another": "update catalog_chunks set number = number + 100",
    "name of a document, bytes": "update catalog_versions set uri = x'ff'",
    "chunks of nobody": "update catalog_chunks set version = version + 100",
    "no versions": "delete from catalog_versions",
    "state of a version": "update catalog_versions set state = 'alive'",
    "no chunks": "delete from catalog_chunks",
    "no table of chunks": "drop table catalog_chunks",
    "no table of versions": "drop table catalog_versions",
    "no column of texts": "alter table catalog_chunks rename column text to words",
    "number of documents": "update catalog_languages set documents = 'all'",
    "no table of languages": "drop table catalog_languages",
    "no table of segments": "drop table catalog_segments",
    "no table of postings": "drop table catalog_postings",
    "lengths of passages, cut short": "update catalog_segments set lengths = substr(lengths, 2)",
    "number of passages": "update catalog_segments set passages = 'all'",
    "terms, bytes": "update catalog_postings set terms = x'ff'",
    "terms, another number": "update catalog_postings set terms = terms || char(10) || 'zzz'",
    "postings, cut short": "update catalog_postings set positions = substr(positions, 2)",
    "postings of nobody": "update catalog_postings set positions = zeroblob(length(positions))"
    " || x'ffff', weights = weights || x'01'",
    "vector, cut short": "update store_vectors set embedding = substr(embedding, 1, 10)",
    "vector, empty": "update store_vectors set embedding = x''",
    "vector, a text": "update store_vectors set embedding = 'garbage'",
    "vector, NaN": f"update store_vectors set embedding = {NAN}",
    "vector, infinity": f"update store_vectors set embedding = {INFINITY}",
    "vectors of another space": "update store_vectors set space = space + 1",
    "no vectors": "delete from store_vectors",
    "no table of vectors": "drop table store_vectors",
    "dimension of a space": "update store_spaces set dimension = 7",
    "version of a space": "update store_spaces set version = 'latest'",
    "no spaces": "delete from store_spaces",
    "no table of spaces": "drop table store_spaces",
}
"""Damage to data that a query needs, as SQL."""

QUIET: dict[str, str] = {
    "generation of a version": "update catalog_versions set generation = 'first'",
    "next number": "update catalog_indexes set next_number = 'next'",
    "a number that comes again": "update catalog_indexes set next_number = 1",
    "context, bytes": "update catalog_chunks set context = x'ff'",
    "lease, a text": "update catalog_leases set number = 'mine', expires = 'never'",
    "no table of leases": "drop table catalog_leases",
    "no index of chunks": "drop index catalog_chunks_id",
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
"""Damage to data that a query does not need, as SQL."""


def change(file: Path, statement: str) -> None:
    """Run a statement on a database file."""
    with closing(sqlite3.connect(file)) as db, db:
        db.execute(statement)
