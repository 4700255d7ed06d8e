"""Tables in a SQLite file, or in memory."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lorebind_knowledge.database.sql import Sql
from lorebind_knowledge.lanes import Threads
from lorebind_knowledge.sqlite.database import SqliteDatabase

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

    from lorebind_knowledge.database.tables import Tables


class EmbeddedDatabase:
    """A `Database` in one SQLite file, or in memory."""

    def __init__(self, path: Path | None, tables: Tables) -> None:
        self._name = f"{tables.name} {'in memory' if path is None else path.absolute()}"
        self._tables = tables
        self.threads = Threads()
        self._sqlite = SqliteDatabase(
            path,
            self._name,
            self._migrate,
            move_away=tables.move_away,
            elsewhere=tables.elsewhere,
        )

    @contextmanager
    def writing(self) -> Iterator[Sql]:
        with self._sqlite.writing() as db:
            yield Sql(db)

    @contextmanager
    def reading(self) -> Iterator[Sql]:
        with self._sqlite.reading() as db:
            yield Sql(db)

    def close(self) -> None:
        self._sqlite.close()

    def __str__(self) -> str:
        return self._name

    def _migrate(self, db: sqlite3.Connection) -> None:
        sql, tables = Sql(db), self._tables
        if not tables.is_current(sql, self._name) or not tables.is_finished(sql):
            db.execute("BEGIN IMMEDIATE")
            tables.bring_up_to_date(sql)
            db.commit()
