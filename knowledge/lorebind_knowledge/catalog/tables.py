"""The catalog's tables, and the migration steps that SQL alone cannot do."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.catalog import (
    earlier_postgres,
    earlier_sqlite,
    earlier_words,
    postgres_words,
    schema,
)
from lorebind_knowledge.catalog.rows import OWNER
from lorebind_knowledge.database.tables import Tables
from lorebind_knowledge.identity import document_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.database.sql import Sql

_RETIRE = (
    "UPDATE catalog_indexes SET state = 'retired',"
    " birth = 1 + floor(random() * 4611686018427387903)::bigint"
)
_WHAT_IS_KEPT = (
    "set it to true once, which keeps the indexes that are stored in the same schema; or ingest "
    "everything again, which uses cached vectors, and add the documents of collections again, "
    "after running"
)
_DOCUMENT = (*OWNER.split(", "), "number", "uri")
_IS_THIS = " and ".join(f"{name} = :{name}" for name in _DOCUMENT)


class _CatalogTables(Tables):
    def steps(self, version: int) -> list[str]:
        of_chunks = schema.OF_CHUNKS if version >= schema.NUMBERED else {}
        later = [line for step, lines in of_chunks.items() if step > version for line in lines]
        return [*super().steps(version), *later]

    def is_finished(self, sql: Sql) -> bool:
        return not (earlier_words.are_left(sql) or _without_id(sql, "limit 1"))

    def finish(self, sql: Sql, version: int | None) -> None:
        if version is not None and version < schema.NUMBERED:
            _number_indexes(sql)
        earlier_words.split_again(sql)
        for row in _without_id(sql):
            this = dict(zip(_DOCUMENT, row, strict=True))
            sql.run(
                f"update catalog_documents set id = :id where {_IS_THIS}",
                id=document_id(this["uri"]),
                **this,
            )

    def by_hand(self, version: int) -> tuple[str, Sequence[str]]:
        if version < schema.NUMBERED:
            return _WHAT_IS_KEPT, [_RETIRE]
        return super().by_hand(version)


CATALOG = _CatalogTables(
    "catalog",
    schema.SCHEMA_VERSION,
    schema.STATEMENTS,
    postgres_words.SQL,
    migrations=schema.MIGRATIONS,
)


def _without_id(sql: Sql, limit: str = "") -> list[Any]:
    """Return the documents without an id, which an earlier version has written."""
    return sql.run(f"select {', '.join(_DOCUMENT)} from catalog_documents where id = '' {limit}")


def _number_indexes(sql: Sql) -> None:
    """Migrate the indexes of a version whose stores kept texts and words.

    An index that could not be migrated is retired, so that it is not searched. The next ingest
    rebuilds it from cached vectors.
    """
    (earlier_postgres if sql.is_postgres else earlier_sqlite).adopt(sql.driver)
    columns = f"{OWNER}, number"
    for row in sql.run(f"select {columns} from catalog_indexes where birth = 0"):
        this = dict(zip(columns.split(", "), row, strict=True))
        sql.run(
            "update catalog_indexes set birth = :birth, state = 'retired' where "
            + " and ".join(f"{name} = :{name}" for name in this),
            birth=secrets.randbits(62),
            **this,
        )
