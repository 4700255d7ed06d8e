"""Migration of the previous PostgreSQL store, which stored texts, words and generations itself.

Its contents are moved into the current tables: the catalog's, and those of the vector store. Each
store had tables whose names begin with the declared one: `<table>_rows` with chunks and vectors,
`<table>_docs` with the versions of documents, `<table>_indexes`, `<table>_version`; and the view
`<table>`, through which LangChain's `PGVectorStore` could read them and add rows of its own.
"""

from __future__ import annotations

import json
import secrets
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.postgres.address import import_psycopg

if TYPE_CHECKING:
    import psycopg

_ROWS_AT_ONCE = 2000
_NAMES = "tenant, project, scope, kb, number"
_VERSION = 2
_SHAPE = {
    "rows": {"langchain_id", "content", "embedding", "langchain_metadata", "chunk_id", "uri"}
    | {"version", "index_key", "fields", "terms", "times", "length"},
    "docs": {"version", "index_key", "document", "uri", "generation", "published", "records"},
    "indexes": {"key", "dimension", "records", "words", *_NAMES.split(", ")},
    "version": {"version"},
}
"""The columns that identify its tables."""
_SPANS = "{start,end,line_start,line_end,page,time_start,time_end}"
"""The metadata fields that are no longer sent to the store."""
_TABLE_SQL = (
    'create table if not exists "{table}_vectors" (space bigint not null, number bigint not null,'
    " embedding vector not null, fields jsonb not null, primary key (space, number))",
    'alter table "{table}_vectors" alter column embedding set storage main',
)
_INDEX_SQL = (
    'create index on "{table}_vectors" using gin (fields jsonb_path_ops) with (fastupdate = off)'
)
_LANGCHAIN = 0
"""The version number of rows that LangChain has written."""


def adopt(db: psycopg.Connection) -> None:
    """Move the tables of the previous version into the current ones, in a write transaction.

    Indexes that the catalog does not know stay where they are, and so do rows that LangChain has
    written. If two stores have the same index, both stay: it is unknown which one is in use.
    """
    found: defaultdict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for table in _tables(db):
        # The previous version locked them in the same order.
        db.execute(f'lock table "{table}_indexes", "{table}_docs", "{table}_rows"')
        for key, *name in db.execute(
            f'select key, {_NAMES} from "{table}_indexes" join catalog_indexes using ({_NAMES})'
        ):
            found[tuple(name)].append((table, key))
    done: defaultdict[str, list[int]] = defaultdict(list)
    for names, places in found.items():
        if len(places) == 1:
            ((table, key),) = places
            _adopt(db, table, key, names)
            done[table].append(key)
    for table, keys in done.items():
        db.execute(_INDEX_SQL.format(table=table))
        _clear(db, table, keys)


def _tables(db: psycopg.Connection) -> list[str]:
    """Return the prefixes of the names of its tables."""
    columns: defaultdict[str, set[str]] = defaultdict(set)
    for relation, column in db.execute(
        "select c.relname, a.attname from pg_class as c join pg_attribute as a"
        " on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped where c.relkind = 'r'"
        " and pg_table_is_visible(c.oid) and c.relname ~ '^\\w+_(rows|docs|indexes|version)$'"
    ):
        columns[relation].add(column)
    names = [relation.removesuffix("_rows") for relation in columns if relation.endswith("_rows")]
    return [
        name
        for name in names
        if all(columns[f"{name}_{part}"] >= shape for part, shape in _SHAPE.items())
        and db.execute(f'select version from "{name}_version"').fetchall() == [(_VERSION,)]
    ]


def _adopt(db: psycopg.Connection, table: str, key: int, names: tuple[str, ...]) -> None:
    """Copy an index, without chunks that were staged and never published."""
    space = secrets.randbits(62)
    db.execute(
        "insert into catalog_versions (space, uri, generation, state)"
        f' select {space}, uri, generation, 1 from "{table}_docs"'
        f" where index_key = {key} and published"
    )
    # In document order, by which the neighbors of a chunk are found.
    live = (
        "select row_number() over (order by r.version,"
        " case when jsonb_typeof(r.fields -> 'start') = 'number' then r.fields -> 'start' end,"
        f' length(r.langchain_id), r.langchain_id) as place, r.* from "{table}_rows" as r'
        f' join "{table}_docs" as d on d.version = r.version and d.published'
        f" where r.index_key = {key}"
    )
    for statement in _TABLE_SQL:
        db.execute(statement.format(table=table))
    db.execute(
        f'insert into "{table}_vectors" (space, number, embedding, fields)'
        f" select {space}, place, embedding, fields - '{_SPANS}'::text[] from ({live}) as r"
    )
    _copy_chunks(db, space, live)
    db.execute(
        f"update catalog_indexes set birth = {space}, version = 1,"
        " live = n.count, entered = n.count, next_number = n.count + 1"
        f" from (select count(*) from catalog_chunks where space = {space}) as n"
        f" where ({_NAMES}) = (%s, %s, %s, %s, %s)",
        names,
    )


def _copy_chunks(db: psycopg.Connection, space: int, live: str) -> None:
    """Copy texts. Their words are tokenized again afterwards, see `earlier_words`."""
    target = "catalog_chunks (space, version, number, id, context, text, metadata)"
    with db.cursor("earlier_chunks") as cursor:
        cursor.execute(
            "select r.place, v.version, r.chunk_id, r.uri, r.content, r.langchain_metadata::text"
            f" from ({live}) as r join catalog_versions as v on v.space = {space}"
            " and v.uri = r.uri order by r.place"
        )
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            with db.cursor().copy(f"copy {target} from stdin") as copy:
                for number, version, name, uri, text, metadata in rows:
                    # A text added by hand has no context, and its uri is its id.
                    context = "" if name == uri else _context(json.loads(metadata))
                    copy.write_row((space, version, number, name, context, text, metadata))


def _context(metadata: dict[str, Any]) -> str:
    """Return the context of an ingested chunk: the store kept only the words of it."""
    title, heading = (str(metadata.get(name, "")) for name in ("title", "heading"))
    if f" > {title} > " in f" > {heading} > ":
        return heading
    return f"{title} > {heading}" if heading else title


def _clear(db: psycopg.Connection, table: str, keys: list[int]) -> None:
    """Remove copied rows, and all tables if nothing else is in them and nothing needs them."""
    db.execute(f'delete from "{table}_indexes" where key = any(%s)', [keys])
    others = db.execute(
        f'select exists (select from "{table}_indexes")'
        f' or exists (select from "{table}_rows" where version = {_LANGCHAIN})'
    )
    if others.fetchall() == [(False,)]:
        with suppress(import_psycopg().errors.DependentObjectsStillExist), db.transaction():
            for statement in _drop_sql(db, table):
                db.execute(statement)
            return
    for part in ("rows", "docs"):
        db.execute(f'delete from "{table}_{part}" where index_key = any(%s)', [keys])


def _drop_sql(db: psycopg.Connection, table: str) -> list[str]:
    parts = ", ".join(f'"{table}_{part}"' for part in _SHAPE)
    tables = [f"drop table {parts}", f'drop sequence "{table}_seq"']
    view = db.execute("select relkind from pg_class where oid = to_regclass(%s)", [f'"{table}"'])
    # If the name is that of a table, it is LangChain's own, and there is no view.
    if view.fetchall() == [("v",)]:
        return [f'drop view "{table}"', *tables, f'drop function "{table}_guard"()']
    return tables
