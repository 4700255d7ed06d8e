"""What a database offers, whichever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lorebind_knowledge.database.sql import Sql


class Database(Protocol):
    """Transactions on the tables of a `Tables`, with errors that name the database.

    Safe to share among threads.
    """

    def writing(self) -> AbstractContextManager[Sql]:
        """A transaction that is committed at the end of the block, or not at all.

        Raises:
            StoreError: the database refused something; the message names it and what to do.
        """
        ...

    def reading(self) -> AbstractContextManager[Sql]:
        """One consistent view. What was not made yet reads as empty, and is not made."""
        ...

    def close(self) -> None:
        """Give back what is held open; it is opened again when needed."""
        ...
