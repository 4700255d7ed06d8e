"""Helpers for the catalog's rows: conditions on the owner, pages, and errors for damaged rows."""

from __future__ import annotations

import re
from contextlib import contextmanager
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from lorebind_config.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from lorebind_config.namespace import IndexKey, Namespace
    from lorebind_knowledge.database.databases import Database
    from lorebind_knowledge.database.sql import Sql

OWNER = "tenant, project, scope, kb"
OURS = "tenant = :tenant and project = :project and scope = :scope and kb = :kb"
"""The columns of a namespace, and the condition that they match the values of `owner`."""


def owner(namespace: Namespace) -> dict[str, str]:
    """Return the values of the columns `OWNER`."""
    return {name: getattr(namespace, name) for name in OWNER.split(", ")}


HERE = f"{OURS} and number = :number"
"""The condition that a row belongs to the index of `place`."""


def not_failed_beside(table: str) -> str:
    """Return the condition that a document has not failed in the index `:beside`.

    A scalar subquery, because PostgreSQL turns `not exists` into a join: until it has statistics of
    the tables, that join reads all documents for each row.

    Args:
        table: the table of the outer statement, whose `uri` is meant.
    """
    return (
        f"(select 1 from catalog_documents as beside where {OURS} and number = :beside"
        f" and uri = {table}.uri and state = 'failed') is null"
    )


def place(key: IndexKey) -> dict[str, Any]:
    """Return the values of the condition `HERE`."""
    return {**owner(key.namespace), "number": key.number}


def check_types(values: Iterable[object], types: tuple[type, ...]) -> None:
    """Check the types of a row: SQLite allows values of any type in a column.

    Raises:
        TypeError: a value has another type.
    """
    actual = tuple(map(type, values))
    if actual != types:
        wrong = next(pair for pair in zip_longest(actual, types) if pair[0] is not pair[1])
        raise TypeError("expected {1.__name__}, found {0.__name__}".format(*wrong))


@contextmanager
def decoding(
    database: Database, transaction: AbstractContextManager[Sql], what: str
) -> Iterator[Sql]:
    """Run a transaction, and report rows that Lorebind cannot have written as damage.

    Raises:
        StoreError: rows are damaged. The message names the database and the suggested fix.
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
    """Return the error for data in the catalog that Lorebind never writes."""
    return StoreError(
        f"the catalog is damaged: {what}; move its database away and ingest again, or restore a "
        "copy"
    )


class Selection(NamedTuple):
    """A condition on the documents of an index."""

    state: str | None = None
    """Only documents in this state."""
    text: str = ""
    """A part of the uri or title, in any case of letters."""
    format: str | None = None
    """Only documents that were read as this format."""

    def sql(self, names: str = "names", format: str = "format") -> str:
        """Return the condition, which another one must precede; it uses `values`.

        Args:
            names: the expression for the uri and the title, without differences of case.
            format: the expression for the format.
        """
        conditions = ""
        if self.state is not None:
            conditions += " and state = :state"
        if self.state not in (None, "ready"):
            conditions += " and state <> 'ready'"  # lets the database use its partial index
        if self.text:
            conditions += f" and {names} like :text escape '!'"
        return conditions if self.format is None else f"{conditions} and {format} = :format"

    @property
    def values(self) -> dict[str, str | None]:
        # Users search for plain text, so the wildcards of `like` are escaped.
        text = re.sub("[!%_]", r"!\g<0>", self.text.casefold())
        return {"state": self.state, "text": f"%{text}%", "format": self.format}

    @property
    def is_any_text(self) -> bool:
        return not self.text and self.format is None

    def has_uri(self, uri: str) -> bool:
        """Return whether a document without title and format can meet the condition on texts."""
        return self.format is None and self.text.casefold() in uri.casefold()


EVERY_DOCUMENT = Selection()


class Page(NamedTuple):
    """A part of the rows, ordered by uri: the first ones or the last ones."""

    limit: int | None = None
    """Maximum number of rows; None means all."""
    after: str | None = None
    """Only rows after this uri, which need not exist itself."""
    before: str | None = None
    """Only rows before this uri."""
    backwards: bool = False
    """Whether to take the last rows, in descending order."""

    @property
    def sql(self) -> str:
        """The end of a statement; a condition must precede it."""
        after = "" if self.after is None else " and uri > :after"
        before = "" if self.before is None else " and uri < :before"
        order = " order by uri desc" if self.backwards else " order by uri"
        return f"{after}{before}{order}{'' if self.limit is None else ' limit :limit'}"

    def until(self, uri: str) -> Page:
        """Return the same page, ending before this uri in the page's order."""
        return self._replace(after=uri) if self.backwards else self._replace(before=uri)
