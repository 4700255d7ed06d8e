"""Indexes of versions before, which split texts into other words: their words are made anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.bm25 import tokenize
from lorebind_knowledge.bm25.languages import detect_language
from lorebind_knowledge.catalog.versions import LIVE, Passage, words_in

if TYPE_CHECKING:
    from lorebind_knowledge.catalog.sql import Sql

_AT_ONCE = 500
"""Documents."""


def are_left(sql: Sql) -> bool:
    """Whether there are indexes whose words another version has split."""
    query = "select 1 from catalog_indexes where words <> :today limit 1"
    return bool(sql.run(query, today=tokenize.VERSION))


def split_again(sql: Sql) -> None:
    """Tell the language of every document in them from its text, and keep its words by it.

    To be called by one process at a time, in a transaction that writes.
    """
    today = tokenize.VERSION
    for (space,) in sql.run("select birth from catalog_indexes where words <> :today", today=today):
        words_in(sql).drop(sql.driver, space)
        rows = sql.run(
            f"select version from catalog_versions where space = :space and state = {LIVE}"
            " order by version",
            space=space,
        )
        versions = [version for (version,) in rows]
        for start in range(0, len(versions), _AT_ONCE):
            _split(sql, space, versions[start : start + _AT_ONCE])
        sql.run(
            "update catalog_indexes set words = :today where birth = :space",
            today=today,
            space=space,
        )


def _split(sql: Sql, space: int, versions: list[int]) -> None:
    texts: dict[int, dict[int, str]] = {}
    for version, number, context, text in sql.run(
        "select version, number, context, text from catalog_chunks where version in (:*versions)"
        " order by row",
        versions=versions,
    ):
        texts.setdefault(version, {})[number] = f"{context}\n{text}"
    passages: dict[int, Passage] = {}
    for version, said in texts.items():
        language = detect_language("\n".join(said.values()))
        sql.run(
            "update catalog_versions set language = :language where version = :version",
            language=language,
            version=version,
        )
        passages |= {number: Passage(number, text, language) for number, text in said.items()}
    words_in(sql).add(sql.driver, space, list(passages.values()))
