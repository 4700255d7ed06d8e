"""SQL that both SQLite and PostgreSQL understand, run by their drivers."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from lorebind_knowledge.database.postgres_rows import insert_rows


class Sql:
    """Runs statements within one transaction.

    `:name` stands for a value, and `in (:*name)` takes a list of any length.
    """

    def __init__(self, driver: Any, begin: str = "begin") -> None:
        """
        Args:
            driver: the connection of sqlite3 or psycopg.
            begin: the statement that began the transaction.
        """
        self.driver, self._begin = driver, begin
        self.is_postgres = not isinstance(driver, sqlite3.Connection)

    def run(self, statement: str, **values: Any) -> list[Any]:
        """Run a statement and return its rows."""
        if self.is_postgres:
            cursor = self.driver.execute(_for_psycopg(statement), values)
            return cursor.fetchall() if cursor.description else []
        rows: list[Any] = self.driver.execute(_for_sqlite(statement), _encoded(values)).fetchall()
        return rows

    def run_binary(self, statement: str, **values: Any) -> list[Any]:
        """Run a query whose rows have long binary values, and return them.

        PostgreSQL would send such values as texts of twice the length otherwise.
        """
        if not self.is_postgres:
            return self.run(statement, **values)
        rows: list[Any] = self.driver.execute(
            _for_psycopg(statement), values, binary=True
        ).fetchall()
        return rows

    def renew(self) -> None:
        """End a snapshot, and begin another one that sees what was committed since."""
        if self.is_postgres:
            self.driver.execute(f"commit; {self._begin}")
        else:
            self.driver.commit()
            self.driver.execute(self._begin)

    def insert(self, table: str, rows: Sequence[Mapping[str, Any]], after: str = "") -> None:
        """Insert rows. Each maps the same columns to values; no value may be a list.

        `after` is the end of the statement, for example `on conflict do nothing`.
        """
        if not rows:
            return
        columns = list(rows[0])
        target = f"{table} ({', '.join(columns)})"
        values = [[row[column] for column in columns] for row in rows]
        if self.is_postgres:
            insert_rows(self.driver, target, values, after)
        else:
            marks = ", ".join("?" * len(columns))
            self.driver.executemany(f"insert into {target} values ({marks}) {after}", values)

    def commit_without_waiting(self) -> None:
        """Let this transaction in PostgreSQL not wait for the disk.

        If the server crashes right after it, it may be undone. A later transaction that waits
        makes it last too.
        """
        if self.is_postgres:
            self.run("set local synchronous_commit to off")

    def has_table(self, name: str) -> bool:
        if self.is_postgres:
            return bool(self.run("select to_regclass(:name) is not null", name=name)[0][0])
        query = "select 1 from sqlite_master where type = 'table' and name = :name"
        return bool(self.run(query, name=name))

    @property
    def now(self) -> str:
        """The SQL expression for the database's current time, in seconds since 1970."""
        # Not `now()`, the time at which the transaction began: it may have waited for a lock since.
        return "extract(epoch from clock_timestamp())" if self.is_postgres else repr(time.time())


# Not after another colon: `x::type` is a cast in PostgreSQL.
_VALUE = re.compile(r"(?<!:):(\w+)")
_LIST = re.compile(r"in \(:\*(\w+)\)")


@lru_cache(maxsize=256)
def _for_psycopg(statement: str) -> str:
    return _VALUE.sub(r"%(\1)s", _LIST.sub(r"= any(:\1)", statement))


@lru_cache(maxsize=256)
def _for_sqlite(statement: str) -> str:
    # One parameter for the whole list, because the limit on parameters varies with SQLite's build.
    return _LIST.sub(r"in (select value from json_each(:\1))", statement)


def _encoded(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: json.dumps(value) if isinstance(value, list) else value
        for name, value in values.items()
    }
