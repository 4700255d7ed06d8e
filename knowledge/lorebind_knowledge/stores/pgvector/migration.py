"""From the tables of earlier versions to those of this one, in place and in one transaction.

Version 1 had what is published and what is staged in two tables of the same columns, between which
publishing moved rows, and the words of records as jsonb.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.errors import StoreError

if TYPE_CHECKING:
    import psycopg

    from lorebind_knowledge.stores.pgvector.schema import Tables

_KEPT = (
    *("content", "embedding", "langchain_metadata", "tenant", "project", "scope", "kb", "number"),
    *("uri", "generation", "index_key", "fields", "length"),
)
_DIGEST = "sha256(convert_to(o.uri, 'UTF8'))"
# As `terms.word_number` makes it: the words had the key in front already.
_NUMBER = (
    "('x' || encode(substr(sha256(convert_to(w.word, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint"
)


def migrate(db: psycopg.Connection, tables: Tables, store: str, *, allowed: bool) -> None:
    """Bring tables of version 1 to this one; searches and ingests wait meanwhile.

    Raises:
        StoreError: it is not allowed; the text has the statements that do it.
    """
    statements = _from_version_1(tables)
    if not allowed:
        raise StoreError(
            f"{store}: was made by an older version of Lorebind, and ensure_schema is false; bring "
            "it up to date, in one transaction, with:\n"
            + "".join(f"{statement};\n" for statement in ("begin", *statements, "commit"))
        )
    for statement in statements:
        db.execute(statement)


def _from_version_1(tables: Tables) -> list[str]:
    live, staged = f'"{tables.name}_old"', f'"{tables.name}_staged"'
    both = f"(select *, true as published from {live} union all select *, false from {staged}) as o"
    columns, kept = ", ".join(_KEPT), ", ".join(f"o.{name}" for name in _KEPT)
    return [
        f"alter table {tables.view} rename to {live}",
        f"lock table {staged}",
        *tables.rows_sql(),
        f"insert into {tables.docs}"
        " (index_key, document, uri, generation, published, records, words)"
        f" select o.index_key, {_DIGEST}, o.uri, o.generation, o.published,"
        f" count(*), sum(o.length) from {both} group by 1, 2, 3, 4, 5",
        f"insert into {tables.rows} (version, chunk_id, {columns}, terms, times)"
        f" select d.version, o.langchain_id, {kept},"
        f" coalesce(t.terms, '{{}}'), coalesce(t.times, '{{}}') from {both}"
        f" join {tables.docs} as d on d.index_key = o.index_key and d.document = {_DIGEST}"
        " and d.generation = o.generation and d.published = o.published"
        f" cross join lateral (select array_agg({_NUMBER}) as terms,"
        " array_agg(w.times::integer) as times"
        " from jsonb_each_text(o.terms) as w (word, times)) as t",
        f"drop table {live}, {staged}",
        *tables.view_sql(),
        f"update {tables.version} set version = 2",
    ]
