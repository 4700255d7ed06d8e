"""Tables that belong together: how they are made, and brought up to date."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lorebind_knowledge.data_folder import ELSEWHERE
from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.sqlite.database import MOVE_AWAY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lorebind_knowledge.database.sql import Sql

_SQLITE = {
    "[count]": "integer primary key autoincrement",
    "[name]": "varchar",
    "[bytes]": "blob",
}
_POSTGRES = {
    "[count]": "bigserial primary key",
    # In the order of code points, whatever the language of the database.
    "[name]": 'varchar collate "C"',
    "[bytes]": "bytea",
}


@dataclass(frozen=True)
class Tables:
    """What a `Database` holds. A subclass may do more than SQL can when a version is new."""

    name: str
    """What messages call them. Their version is in the table `<name>_version`."""
    version: int
    statements: Sequence[str]
    """What makes the tables and their indexes where they are missing.

    `[count]` is a primary key that the database counts up, `[name]` a text that is sorted by code
    points, `[bytes]` a type for bytes.
    """
    postgres_statements: Sequence[str] = ()
    """The same of tables that only PostgreSQL has."""
    migrations: Mapping[int, Sequence[str]] = field(default_factory=dict)
    """By version: what makes tables of the version before into tables of this one, in every
    database. It comes before `statements`."""
    move_away: str = MOVE_AWAY
    """What to do about a damaged database, for messages."""
    elsewhere: str = ELSEWHERE
    """How to keep a file in another place, for messages."""

    def steps(self, version: int) -> list[str]:
        """What makes the tables of an earlier version into today's, before `statements`."""
        return [
            statement
            for step in range(version + 1, self.version + 1)
            for statement in self.migrations.get(step, ())
        ]

    def is_finished(self, sql: Sql) -> bool:
        """Whether `finish` has nothing to do, where the tables are current."""
        return True

    def finish(self, sql: Sql, version: int | None) -> None:
        """Do the rest after the statements.

        Called for one process at a time, in a transaction that writes.

        Args:
            sql: the transaction.
            version: that of the tables until now; None where there were none.
        """

    def by_hand(self, version: int) -> tuple[str, Sequence[str]]:
        """What an administrator does about tables of an earlier version: how a message says it,
        and the SQL that is run in place of `finish`."""
        return "make them with", ()

    def made(self, *, postgres: bool) -> list[str]:
        """The statements as the database takes them."""
        made = [f"create table if not exists {self.name}_version (version integer primary key)"]
        for statement in self.statements:
            for word, kind in (_POSTGRES if postgres else _SQLITE).items():
                statement = statement.replace(word, kind)
            made.append(statement)
        return [*made, *(self.postgres_statements if postgres else ())]

    def version_in(self, sql: Sql) -> int | None:
        """The version of the tables; None where there are none."""
        if not sql.has_table(f"{self.name}_version"):
            return None
        rows = sql.run(f"select version from {self.name}_version")
        return rows[0][0] if rows else None

    def is_current(self, sql: Sql, place: str) -> bool:
        """Whether the tables are there, and are as this Lorebind knows them.

        Raises:
            StoreError: they were made by a newer one; it begins with `place`.
        """
        version = self.version_in(sql)
        if version is None:
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
        """Make the tables that are missing, and those of an earlier Lorebind into today's.

        To be called by one process at a time, in a transaction that writes.
        """
        version_table, *made = self.made(postgres=sql.is_postgres)
        # First: PostgreSQL remembers that it found no table before it waited for its turn.
        sql.run(version_table)
        version = self.version_in(sql)
        if version != self.version:
            for statement in (*([] if version is None else self.steps(version)), *made):
                sql.run(statement)
            table = f"{self.name}_version"
            sql.run(f"delete from {table}")
            sql.run(f"insert into {table} (version) values (:today)", today=self.version)
        self.finish(sql, version)

    def script(self, version: int | None) -> str:
        """What makes them in PostgreSQL, for an administrator to run.

        Args:
            version: that of the tables which are there; None where there are none.
        """
        made, today = self.made(postgres=True), self.version
        if version is None:
            return script(*made, f"INSERT INTO {self.name}_version (version) VALUES ({today})")
        _, rest = self.by_hand(version)
        set_version = f"UPDATE {self.name}_version SET version = {today}"
        return script(*self.steps(version), *made, *rest, set_version)


def script(*statements: str) -> str:
    return "".join(f"{statement};\n" for statement in statements)
