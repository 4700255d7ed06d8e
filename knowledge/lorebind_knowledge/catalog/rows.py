"""What the catalog's rows share: whose they are, and what is said of damaged ones."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from lorebind_knowledge.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from lorebind_knowledge.database.base import Database
    from lorebind_knowledge.database.sql import Sql
    from lorebind_knowledge.namespace import IndexKey, Namespace

OWNER = "tenant, project, scope, kb"
OURS = "tenant = :tenant and project = :project and scope = :scope and kb = :kb"
"""The columns that name a namespace, and the condition that they name the one of `owner`."""


def owner(namespace: Namespace) -> dict[str, str]:
    """The values of these columns."""
    return {name: getattr(namespace, name) for name in namespace.__slots__}


HERE = f"{OURS} and number = :number"
"""The condition that a row is of the index of `place`."""


def place(key: IndexKey) -> dict[str, Any]:
    """The values of these columns."""
    return {**owner(key.namespace), "number": key.number}


def check_types(values: Iterable[object], types: tuple[type, ...]) -> None:
    """Check the types of a row: SQLite lets any value be in any column."""
    found = tuple(map(type, values))
    if found != types:
        wrong = next(pair for pair in zip_longest(found, types) if pair[0] is not pair[1])
        raise TypeError("expected {1.__name__}, found {0.__name__}".format(*wrong))


@contextmanager
def decoding(
    database: Database, transaction: AbstractContextManager[Sql], what: str
) -> Iterator[Sql]:
    """A transaction in which rows that nobody can have written are an error of their own.

    Raises:
        StoreError: naming the database and the repair.
    """
    try:
        with transaction as sql:
            yield sql
    except (TypeError, ValueError) as error:
        raise StoreError(
            f"{database}: its {what} are damaged: {error}; move it away and ingest again, or "
            "restore a copy"
        ) from error


def damaged(what: str) -> StoreError:
    """What a catalog holds that nobody has written."""
    return StoreError(
        f"the catalog is damaged: {what}; move its database away and ingest again, or restore a "
        "copy"
    )


class Page(NamedTuple):
    """A part of the rows that are ordered by uri: the first ones, or the last ones."""

    limit: int | None = None
    """The most; None is all."""
    after: str | None = None
    """Only those after this uri, whether there is a row of it or not."""
    before: str | None = None
    """Only those before this uri."""
    backwards: bool = False
    """Whether it is the last ones, in the opposite order."""

    @property
    def sql(self) -> str:
        """The end of a statement that has a condition before it."""
        after = "" if self.after is None else " and uri > :after"
        before = "" if self.before is None else " and uri < :before"
        order = " order by uri desc" if self.backwards else " order by uri"
        return f"{after}{before}{order}{'' if self.limit is None else ' limit :limit'}"

    def until(self, uri: str) -> Page:
        """The same page without what comes after this uri in its order."""
        return self._replace(after=uri) if self.backwards else self._replace(before=uri)
