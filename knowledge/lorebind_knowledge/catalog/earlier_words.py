"""Tokenizes the texts of indexes again if an earlier version has tokenized them differently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.catalog.versions import LIVE, words_in
from lorebind_knowledge.text import terms
from lorebind_knowledge.text.languages import detect_language
from lorebind_knowledge.text.terms import Passage

if TYPE_CHECKING:
    from lorebind_knowledge.database.sql import Sql

_DOCUMENTS, _PASSAGES = 100, 1000
"""Batch sizes. PostgreSQL ends the session of a writer that is idle for too long."""


def are_left(sql: Sql) -> bool:
    """Return whether an earlier version has tokenized the words of any index."""
    query = "select 1 from catalog_indexes where words < :today limit 1"
    return bool(sql.run(query, today=terms.VERSION))


def split_again(sql: Sql) -> None:
    """Detect the language of every document in such indexes, and tokenize its words by it.

    Only one process at a time may call it, in a write transaction.
    """
    today = terms.VERSION
    outdated = "select index_uid from catalog_indexes where words < :today"
    for (space,) in sql.run(outdated, today=today):
        words_in(sql).drop(sql.driver, space)
        live = f"from catalog_versions where space = :space and state = {LIVE}"
        rows = sql.run(f"select version {live} order by version", space=space)
        versions = [version for (version,) in rows]
        for start in range(0, len(versions), _DOCUMENTS):
            _split(sql, space, versions[start : start + _DOCUMENTS])
        sql.run(
            "update catalog_indexes set words = :today, version = version + 1"
            " where index_uid = :space",
            today=today,
            space=space,
        )


def _split(sql: Sql, space: int, versions: list[int]) -> None:
    chunks_of: dict[int, list[tuple[int, str, str]]] = {version: [] for version in versions}
    for version, *passage in sql.run(
        "select version, number, context, text from catalog_chunks where version in (:*versions)"
        " order by row",
        versions=versions,
    ):
        chunks_of[version].append((passage[0], passage[1], passage[2]))
    passages: list[Passage] = []
    for version, chunks in chunks_of.items():
        language = detect_language("\n".join(text for *_, text in chunks)) if chunks else ""
        sql.run(
            "update catalog_versions set language = :language where version = :version",
            language=language,
            version=version,
        )
        passages += [Passage(n, f"{context}\n{text}", language) for n, context, text in chunks]
    for start in range(0, len(passages), _PASSAGES):
        words_in(sql).add(sql.driver, space, passages[start : start + _PASSAGES])
