"""Tokenizes the texts of indexes again if an earlier version has tokenized them differently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.catalog.versions import LIVE, Versions
from lorebind_knowledge.text import terms
from lorebind_knowledge.text.languages import detect_language

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lorebind_knowledge.database.sql import Sql

_DOCUMENTS = 100
"""Batch size. PostgreSQL ends the session of a writer that is idle for too long."""


def are_left(sql: Sql) -> bool:
    """Return whether an earlier version has tokenized the words of any index."""
    query = "select 1 from catalog_indexes where words < :today limit 1"
    return bool(sql.run(query, today=terms.VERSION))


def split_again(sql: Sql) -> None:
    """Detect the language of every document in such indexes, and tokenize its words by it.

    Only one process at a time may call it, in a write transaction.
    """
    from lorebind_knowledge.catalog import postings

    today = terms.VERSION
    outdated = "select index_uid from catalog_indexes where words < :today"
    for (space,) in sql.run(outdated, today=today):
        postings.drop(sql, space, [postings.WORDS])
        live = f"from catalog_versions where space = :space and state = {LIVE}"
        versions = sql.run(f"select version, uri {live} order by version", space=space)
        for start in range(0, len(versions), _DOCUMENTS):
            _split(sql, space, dict(versions[start : start + _DOCUMENTS]))
        Versions(sql, space).count_again()
        sql.run(
            "update catalog_indexes set words = :today, version = version + 1"
            " where index_uid = :space",
            today=today,
            space=space,
        )


def _split(sql: Sql, space: int, versions: Mapping[int, str]) -> None:
    texts: dict[int, list[str]] = {version: [] for version in versions}
    for version, text in sql.run(
        "select version, text from catalog_chunks where version in (:*versions) order by row",
        versions=list(versions),
    ):
        texts[version].append(text)
    for version, parts in texts.items():
        sql.run(
            "update catalog_versions set language = :language where version = :version",
            language=detect_language("\n".join(parts)) if parts else "",
            version=version,
        )
    Versions(sql, space).update_words(versions)
