"""A group of tables: how they are created and migrated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lorebind_config.errors import StoreError
from lorebind_config.project_files import ELSEWHERE
from lorebind_knowledge.database.sqlite import MOVE_AWAY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lorebind_knowledge.database.sql import Sql

_SQLITE = {
    # `autoincrement`, so that the number of a deleted row is never used again.
    "[count]": "integer primary key autoincrement",
    "[name]": "varchar",
    "[bytes]": "blob",
}
_POSTGRES = {
    "[count]": "bigserial primary key",
    # Sorted by code points, whatever the language of the database.
    "[name]": 'varchar collate "C"',
    "[bytes]": "bytea",
}


@dataclass(frozen=True)
class Tables:
    """The tables of a `Database`. A subclass may migrate them in ways that SQL alone cannot."""

    name: str
    """The name in messages. The table `<name>_schema` holds the version."""
    version: int
    statements: Sequence[str]
    """The statements that create missing tables and indexes.

    `[count]` is an auto-incremented primary key, `[name]` a text that is sorted by code points,
    `[bytes]` a binary type.
    """
    migrations: Mapping[int, Sequence[str]] = field(default_factory=dict)
    """By version: the statements that turn tables of the previous version into this version, in
    every database. They run before `statements`."""
    creation: Sequence[str] = ()
    """Statements that run before `statements` if there are no tables, in PostgreSQL's dialect."""
    move_away: str = MOVE_AWAY
    """The suggested fix for a damaged database or an unreleased version's, for messages."""
    elsewhere: str = ELSEWHERE
    """The advice on choosing another location for a file, for messages."""

    def steps(self, version: int) -> list[str]:
        """Return the statements that migrate from an earlier version, to run before the others."""
        return [
            statement
            for step in range(version + 1, self.version + 1)
            for statement in self.migrations.get(step, ())
        ]

    def is_finished(self, sql: Sql) -> bool:
        """Return whether `finish` has nothing to do, if the tables are current."""
        return True

    def finish(self, sql: Sql, version: int | None) -> None:
        """Do the rest of a migration, after the statements.

        Only one process at a time calls it, in a write transaction.

        Args:
            sql: the transaction.
            version: the version before the migration; None if there were no tables.
        """

    def dialect_statements(self, *, postgres: bool) -> list[str]:
        """Return the statements in the dialect of the database."""
        ddl = [f"create table if not exists {self._version_table} (version integer primary key)"]
        for statement in self.statements:
            for word, kind in (_POSTGRES if postgres else _SQLITE).items():
                statement = statement.replace(word, kind)
            ddl.append(statement)
        return ddl

    def version_in(self, sql: Sql) -> int | None:
        """Return the version of the tables, or None if there are none."""
        if not sql.has_table(self._version_table):
            return None
        rows = sql.run(f"select version from {self._version_table}")
        return rows[0][0] if rows else None

    def is_current(self, sql: Sql, place: str) -> bool:
        """Return whether the tables exist in the current version.

        Raises:
            StoreError: a newer Lorebind has created them, or one before the first release. The
                message begins with `place`.
        """
        version = self.version_in(sql)
        if version is None:
            if sql.has_table(f"{self.name}_version"):
                raise StoreError(
                    f"{place}: was written before the first release of Lorebind; {self.move_away}"
                )
            return False
        if type(version) is not int or version < 1:
            raise StoreError(f"{place}: its version is damaged: {version!r}; {self.move_away}")
        if version > self.version:
            raise StoreError(
                f"{place}: was written by a newer Lorebind (schema {version}, this one knows "
                f"{self.version}); upgrade with: pip install -U lorebind"
            )
        return version == self.version

    def bring_up_to_date(self, sql: Sql) -> None:
        """Create missing tables, and migrate tables of an earlier version.

        Only one process at a time may call it, in a write transaction.
        """
        version_table, *ddl = self.dialect_statements(postgres=sql.is_postgres)
        # First, because PostgreSQL may have cached, before its turn came, that it is missing.
        sql.run(version_table)
        version = self.version_in(sql)
        if version != self.version:
            first = self.creation if version is None else self.steps(version)
            # psycopg would take a percent sign for the beginning of a parameter.
            for statement in (*first, *ddl):
                sql.run(statement.replace("%", "%%") if sql.is_postgres else statement)
            sql.run(f"delete from {self._version_table}")
            sql.run(
                f"insert into {self._version_table} (version) values (:today)", today=self.version
            )
        self.finish(sql, version)

    def script(self, version: int | None) -> str:
        """Return the SQL with which an administrator creates or migrates them in PostgreSQL.

        Args:
            version: the version of the existing tables; None if there are none.
        """
        ddl, today = self.dialect_statements(postgres=True), self.version
        if version is None:
            return script(
                *self.creation,
                *ddl,
                f"INSERT INTO {self._version_table} (version) VALUES ({today})",
            )
        set_version = f"UPDATE {self._version_table} SET version = {today}"
        return script(*self.steps(version), *ddl, set_version)

    @property
    def _version_table(self) -> str:
        return f"{self.name}_schema"


def script(*statements: str) -> str:
    return "".join(f"{statement};\n" for statement in statements)
