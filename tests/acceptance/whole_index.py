"""All that an index serves and all that its file holds, without the limits of a search."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from contextlib import closing, suppress
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from lorebind_knowledge.catalog.versions import LIVE
from lorebind_knowledge.cosines import score_of
from lorebind_knowledge.index.index import NoIndexError
from lorebind_knowledge.records import DocumentMatch

from .noting_embedder import Noting

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lorebind import Project
    from lorebind_knowledge.catalog.ledger import IndexEntry
    from lorebind_knowledge.index.view import View

Passages: TypeAlias = "dict[str, list[DocumentMatch]]"
"""By document, in the order in which they stand there. Documents without any are left out."""

QUESTION = "everything there is"


def active_index(project: Project, kb_id: str) -> IndexEntry | None:
    kb = project.knowledge.knowledge_base(kb_id)
    return kb.catalog.ledger.index(kb.namespace, "active")


def all_passages(project: Project, kb_id: str, revision: str) -> Passages:
    """Every passage that a search with this embedder can find, scored by `QUESTION`."""
    kb = project.knowledge.knowledge_base(kb_id)
    vector = np.array(Noting(revision).embed_query(QUESTION), np.float32)

    def read(view: View) -> list[DocumentMatch]:
        nearest = view.nearest(vector, 10**6)
        numbers = nearest.numbers.tolist()
        whole = view.chunks(numbers)
        return [
            DocumentMatch(one.id, score_of(cosine), {"dense": cosine}, one.text, one.metadata)
            for one, cosine in zip(
                map(whole.__getitem__, numbers), nearest.figures.tolist(), strict=True
            )
        ]

    found: Passages = defaultdict(list)
    with suppress(NoIndexError):
        for match in kb.index.read(kb.namespace, read):
            found[match.metadata["uri"]].append(match)
    for matches in found.values():
        matches.sort(key=lambda match: (match.metadata["start"], match.id))
    return dict(found)


def contents(passages: Passages) -> dict[str, list[tuple[str, ...]]]:
    """The same without scores, which are an embedder's."""
    return {
        uri: [(one.id, one.text, json.dumps(one.metadata, sort_keys=True)) for one in found]
        for uri, found in passages.items()
    }


def read_by_embedder(passage: DocumentMatch) -> str:
    """What the embedder reads of a passage: its text under its title and headings."""
    title, heading = passage.metadata["title"], passage.metadata["heading"]
    headings = heading.split(" > ") if heading else []
    path = headings if title in headings else [title, *headings]
    return f"{' > '.join(path)}\n{passage.text}"


def check_whole(
    found: Mapping[str, object],
    before: Mapping[str, object],
    after: Mapping[str, object],
    *,
    at_once: bool,
) -> None:
    """Every document is as it was or as it will be, and with `at_once` all of them are the same."""
    for uri in before.keys() | after.keys() | found.keys():
        assert found.get(uri) in (before.get(uri), after.get(uri)), uri
    if at_once:
        assert found in (before, after)


def check_file(
    path: Path, expected: Mapping[str, Passages], successors: Mapping[str, bool]
) -> None:
    """A SQLite file holds what is served, and nothing that was: no chunk, vector, word or document.

    Args:
        path: the file.
        expected: what each knowledge base serves.
        successors: whether one may have an index that was begun and not finished.
    """
    with closing(sqlite3.connect(path)) as db:
        indexes = db.execute(
            "select birth, kb, number, state, live, entered from catalog_indexes"
        ).fetchall()
        births = {birth for birth, *_ in indexes}
        for table in ("catalog_versions", "catalog_chunks", "store_vectors", "store_spaces"):
            spaces = db.execute(f"select distinct space from {table}")
            assert {space for (space,) in spaces} <= births
        for birth, kb, number, state, *counted in indexes:
            if state != "active":
                assert state == "building"
                assert successors[kb]
                continue
            served = {uri: len(found) for uri, found in expected[kb].items()}
            assert counted == [sum(served.values())] * 2
            _check_index(db, birth, served)
            documents = db.execute(
                "select uri, state, chunk_count, generation from catalog_documents"
                " where kb = ? and number = ?",
                (kb, number),
            ).fetchall()
            assert {state for _, state, *_ in documents} == {"ready"}
            assert {uri: chunks for uri, _, chunks, _ in documents if chunks} == served
            versions = "select uri, generation, state from catalog_versions where space = ?"
            live = {(uri, generation, LIVE) for uri, *_, generation in documents}
            assert set(db.execute(versions, (birth,))) == live


def _check_index(db: sqlite3.Connection, birth: int, served: Mapping[str, int]) -> None:
    """The chunks of an index, its vectors and its words are the same, and those of documents."""
    chunks = db.execute(
        "select c.number, v.uri from catalog_chunks as c"
        " left join catalog_versions as v on v.version = c.version where c.space = ?",
        (birth,),
    ).fetchall()
    assert Counter(uri for _, uri in chunks) == served
    numbers = {number for number, _ in chunks}
    vectors = db.execute("select number from store_vectors where space = ?", (birth,))
    assert {number for (number,) in vectors} == numbers
    words = db.execute(f"select id from catalog_words_{birth:016x}_docsize")
    assert {number for (number,) in words} == numbers
