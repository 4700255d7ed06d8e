"""The interface of a database, either SQLite or PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lorebind_knowledge.database.sql import Sql
    from lorebind_knowledge.lanes import Threads


class Database(Protocol):
    """Transactions on the tables of a `Tables`, with errors that name the database.

    Safe to share among threads.
    """

    threads: Threads
    """The threads of functions that use it."""

    def writing(self) -> AbstractContextManager[Sql]:
        """Open a transaction that is committed at the end of the block, or rolled back.

        Raises:
            StoreError: the database failed. The message names the database and a suggested fix.
        """
        ...

    def reading(self) -> AbstractContextManager[Sql]:
        """Open a consistent snapshot. Missing tables read as empty and are not created."""
        ...

    def close(self) -> None:
        """Close open connections. The database opens new ones when it is used again."""
        ...
