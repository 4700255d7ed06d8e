"""Versions of documents: rows are written under one, and found once it is published.

Each function is one part of a transaction that has locked the index's own row. Documents are
locked in the order of their digests, so that writers wait for each other and never in a circle.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from lorebind_knowledge.catalog.postgres import escaped
from lorebind_knowledge.stores.pgvector.copying import copy_in
from lorebind_knowledge.stores.pgvector.rows import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import psycopg

    from lorebind_knowledge.records import Record, RecordFilter
    from lorebind_knowledge.stores.pgvector.rows import Row
    from lorebind_knowledge.stores.pgvector.schema import Tables


class _Doc(NamedTuple):
    version: int
    document: bytes
    generation: int
    published: bool
    records: int
    words: int


def stage(
    db: psycopg.Connection, tables: Tables, key: int, dimension: int, records: Sequence[Record]
) -> None:
    """Write records of one index, each identity once; none of them is found yet.

    Raises:
        StoreError: naming the document of a record that cannot be stored.
    """
    versions = _staged_versions(db, tables, key, records)
    written: Counter[int] = Counter()
    words: Counter[int] = Counter()

    def counted() -> Iterator[list[Row]]:
        for block in rows_of(records, key, dimension, versions):
            for row in block:
                written[row.version] += 1
                words[row.version] += row.length
            yield block

    copy_in(db, tables, counted())
    db.execute(
        f"update {tables.docs} as d set records = d.records + n.records, words = d.words + n.words"
        " from unnest(%s::bigint[], %s::bigint[], %s::bigint[]) as n (version, records, words)"
        " where d.version = n.version",
        [list(written), list(written.values()), [words[version] for version in written]],
    )


def _staged_versions(
    db: psycopg.Connection, tables: Tables, key: int, records: Sequence[Record]
) -> dict[tuple[str, int], int]:
    """The versions to write under, locked, without what is staged already of the same identity."""
    documents = {(record.uri, record.generation) for record in records}
    given = {(_digest(uri), generation): uri for uri, generation in documents}
    order = sorted(given)
    rows = db.execute(
        f"insert into {tables.docs} (index_key, document, uri, generation)"
        " select %s, n.* from unnest(%s::bytea[], %s::text[], %s::bigint[]) as n"
        " on conflict (index_key, document, generation, published)"
        # This locks it, and a row that was inserted has no `xmax` yet.
        " do update set uri = excluded.uri returning document, generation, version, xmax <> 0",
        [
            key,
            [document for document, _ in order],
            [given[identity] for identity in order],
            [generation for _, generation in order],
        ],
    ).fetchall()
    found = {(given[document, number], number): version for document, number, version, _ in rows}
    known = {version for _, _, version, was_there in rows if was_there}
    again = [
        (found[record.uri, record.generation], record.id)
        for record in records
        if found[record.uri, record.generation] in known
    ]
    if again:
        db.execute(
            f"with gone as (delete from {tables.rows} as r"
            " using unnest(%s::bigint[], %s::text[]) as n (version, id) where r.index_key = %s"
            ' and r.chunk_id = n.id collate "C" and r.version = n.version'
            " returning r.version, r.length), lost as (select version, count(*) as records,"
            f" sum(length) as words from gone group by version) update {tables.docs} as d set"
            " records = d.records - lost.records, words = d.words - lost.words from lost"
            " where d.version = lost.version",
            [[version for version, _ in again], [id_ for _, id_ in again], key],
        )
    return found


def publish(
    db: psycopg.Connection,
    tables: Tables,
    key: int,
    generations: Mapping[str, int],
    *,
    keep_others: bool,
) -> None:
    """Let one generation of each document be found, and no other.

    Args:
        db: a transaction that holds the index alone.
        tables: the tables.
        key: the index's.
        generations: by uri.
        keep_others: whether other generations stay, staged, or are deleted.
    """
    wanted = {_digest(uri): generation for uri, generation in generations.items()}
    docs: dict[bytes, list[_Doc]] = {}
    for doc in _locked(db, tables, "index_key = %s and document = any(%s)", [key, list(wanted)]):
        docs.setdefault(doc.document, []).append(doc)
    rising: list[_Doc] = []
    falling: list[_Doc] = []
    gone: list[_Doc] = []
    for document, some in docs.items():
        generation = wanted[document]
        staged = {doc.generation: doc for doc in some if not doc.published}
        new = staged.pop(generation, None)
        old = next((doc for doc in some if doc.published), None)
        if not keep_others:
            gone += staged.values()
        if old and old.generation == generation:
            if new:
                _merge(db, tables, old, new, into=old)
            continue
        if new:
            rising.append(new)
        if old and not keep_others:
            gone.append(old)
        elif old and old.generation in staged:
            _merge(db, tables, old, staged[old.generation], into=staged[old.generation])
        elif old:
            falling.append(old)
    before = [doc for some in docs.values() for doc in some if doc.published]
    with db.pipeline():
        _delete(db, tables, gone)
        for docs_, published in ((falling, False), (rising, True)):
            if docs_:
                change = f"update {tables.docs} set published = %s where version = any(%s)"
                db.execute(change, [published, _versions(docs_)])
        db.execute(
            f"update {tables.indexes} as i set records = i.records - %s + now.records,"
            " words = i.words - %s + now.words from (select coalesce(sum(records), 0) as records,"
            f" coalesce(sum(words), 0) as words from {tables.docs}"
            " where index_key = %s and document = any(%s) and published) as now where key = %s",
            [*_totals(before), key, list(wanted), key],
        )


def delete(db: psycopg.Connection, tables: Tables, key: int, meant: RecordFilter) -> int:
    """Delete the versions for which every condition holds; how many records that were."""
    conditions, values = ["index_key = %s"], [key]
    for condition, value in (
        ("document = %s", None if meant.uri is None else _digest(meant.uri)),
        ("generation = %s", meant.generation),
        ("generation <> %s", meant.except_generation),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)  # type: ignore[arg-type]
    gone = _locked(db, tables, " and ".join(conditions), values)
    _delete(db, tables, gone)
    lost = _totals(doc for doc in gone if doc.published)
    db.execute(
        f"update {tables.indexes} set records = records - %s, words = words - %s where key = %s",
        [*lost, key],
    )
    return sum(doc.records for doc in gone)


def _digest(uri: str) -> bytes:
    return hashlib.sha256(escaped(uri).encode()).digest()


def _locked(
    db: psycopg.Connection, tables: Tables, condition: str, values: Sequence[object]
) -> list[_Doc]:
    rows = db.execute(
        f"select {', '.join(_Doc._fields)} from {tables.docs} where {condition}"
        " order by document, generation for update",
        values,
    )
    return [_Doc(*row) for row in rows]


def _merge(db: psycopg.Connection, tables: Tables, old: _Doc, new: _Doc, *, into: _Doc) -> None:
    """Make two versions of one generation one, in which the newer of two records stays."""
    away = new if into is old else old
    db.execute(
        f"delete from {tables.rows} as o using {tables.rows} as n"
        " where o.version = %s and n.version = %s and n.chunk_id = o.chunk_id",
        [old.version, new.version],
    )
    move = f"update {tables.rows} set version = %s where version = %s"
    db.execute(move, [into.version, away.version])
    db.execute(f"delete from {tables.docs} where version = %s", [away.version])
    db.execute(
        f"update {tables.docs} as d set records = n.records, words = n.words from (select"
        " count(*) as records, coalesce(sum(length), 0) as words"
        f" from {tables.rows} where version = %s) as n where d.version = %s",
        [into.version, into.version],
    )


def _delete(db: psycopg.Connection, tables: Tables, docs: Sequence[_Doc]) -> None:
    if docs:
        for table in (tables.rows, tables.docs):
            db.execute(f"delete from {table} where version = any(%s)", [_versions(docs)])


def _versions(docs: Iterable[_Doc]) -> list[int]:
    return [doc.version for doc in docs]


def _totals(docs: Iterable[_Doc]) -> tuple[int, int]:
    counted = [(doc.records, doc.words) for doc in docs]
    return sum(records for records, _ in counted), sum(words for _, words in counted)
