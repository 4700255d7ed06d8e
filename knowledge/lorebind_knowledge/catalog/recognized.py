"""The text that OCR recognized in pages of documents, so that each page is read once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lorebind_knowledge.catalog.rows import OURS, owner

if TYPE_CHECKING:
    from collections.abc import Collection

    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.database.databases import Database


class RecognizedPage(NamedTuple):
    """The text of a page and its places, as OCR recognized them."""

    text: str
    boxes: str
    """Where the lines of the text are; see `loaders.scans.words`."""


class RecognizedPages:
    """Reads and writes the texts of pages, by a hash of their picture and of the models.

    They are deleted with their document and with the knowledge base. No method needs a lease: the
    same page always has the same text.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, namespace: Namespace, page: str) -> RecognizedPage | None:
        """Return a page of any document; None if it was not recognized yet."""
        query = f"select text, boxes from catalog_recognized where {OURS} and page = :page limit 1"
        with self._database.reading() as sql:
            rows = sql.run(query, **owner(namespace), page=page)
        return RecognizedPage(*rows[0]) if rows else None

    def put(self, namespace: Namespace, uri: str, page: str, read: RecognizedPage) -> None:
        """Store a page of a document."""
        row = {**owner(namespace), "uri": uri, "page": page, **read._asdict()}
        with self._database.writing() as sql:
            sql.insert(
                "catalog_recognized",
                [row],
                "on conflict (tenant, project, scope, kb, uri, page) do nothing",
            )

    def keep_only(self, namespace: Namespace, uri: str, pages: Collection[str]) -> None:
        """Delete all pages of a document except these."""
        others = f"from catalog_recognized where {OURS} and uri = :uri"
        if pages:
            others += " and page not in (:*pages)"
        values = {**owner(namespace), "uri": uri, "pages": list(pages)}
        with self._database.reading() as sql:
            has_others = sql.run(f"select 1 {others} limit 1", **values)
        if has_others:  # rarely, and a transaction that writes waits for others
            with self._database.writing() as sql:
                sql.run(f"delete {others}", **values)

    def clear(self, namespace: Namespace) -> None:
        """Delete all pages of a knowledge base."""
        with self._database.writing() as sql:
            sql.run(f"delete from catalog_recognized where {OURS}", **owner(namespace))
