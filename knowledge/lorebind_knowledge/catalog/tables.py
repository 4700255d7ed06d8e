"""The catalog's tables, and the part of a migration that SQL alone cannot do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.catalog import earlier_words, postgres_words, schema
from lorebind_knowledge.database.tables import Tables

if TYPE_CHECKING:
    from lorebind_knowledge.database.sql import Sql


class _CatalogTables(Tables):
    def is_finished(self, sql: Sql) -> bool:
        return not earlier_words.are_left(sql)

    def finish(self, sql: Sql, version: int | None) -> None:
        earlier_words.split_again(sql)


CATALOG = _CatalogTables(
    "catalog",
    schema.SCHEMA_VERSION,
    schema.STATEMENTS,
    postgres_words.SQL,
    migrations=schema.MIGRATIONS,
    move_away="move it away, then ingest again; documents that were added are lost",
)
