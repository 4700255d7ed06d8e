"""All passages that an index serves and all rows of its file, without the limits of a search."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeAlias

import numpy as np

from lorebind import Project
from lorebind_knowledge.catalog.indexes import IndexEntry
from lorebind_knowledge.catalog.postings import TERMS, WORDS
from lorebind_knowledge.catalog.versions import LIVE
from lorebind_knowledge.cosines import score_of
from lorebind_knowledge.index.index import NoIndexError
from lorebind_knowledge.index.view import View
from lorebind_knowledge.records import DocumentMatch

from .noting_embedder import Noting

Passages: TypeAlias = "dict[str, list[DocumentMatch]]"
"""Passages by document, in the order of the text. Documents without passages are omitted."""

QUESTION = "everything there is"


def active_index(project: Project, kb_id: str) -> IndexEntry | None:
    kb = project.knowledge.open(kb_id).kb
    return kb.catalog.ledger.index(kb.namespace, "active")


def all_passages(project: Project, kb_id: str, revision: str) -> Passages:
    """Return every passage that a search with this embedder can find, scored by `QUESTION`."""
    kb = project.knowledge.open(kb_id).kb
    vector = np.array(Noting(revision).embed_query(QUESTION), np.float32)

    def read(view: View) -> list[DocumentMatch]:
        nearest = view.nearest(vector, 10**6)
        numbers = nearest.numbers.tolist()
        whole = view.chunks(numbers)
        return [
            DocumentMatch(record.id, score, score, {"dense": cosine}, record.text, record.metadata)
            for record, score, cosine in zip(
                map(whole.__getitem__, numbers),
                map(score_of, nearest.scores),
                nearest.scores.tolist(),
                strict=True,
            )
        ]

    by_uri: Passages = defaultdict(list)
    with suppress(NoIndexError):
        for match in kb.index.read(kb.namespace, read):
            by_uri[match.metadata["uri"]].append(match)
    for matches in by_uri.values():
        matches.sort(key=lambda match: (match.metadata["start"], match.id))
    return dict(by_uri)


def contents(passages: Passages) -> dict[str, list[tuple[object, ...]]]:
    """Return the passages without scores, which depend on the embedder."""
    return {
        uri: [(match.id, match.text, match.metadata) for match in matches]
        for uri, matches in passages.items()
    }


def read_by_embedder(passage: DocumentMatch) -> str:
    """Return the text that the embedder reads for a passage: title, headings and text."""
    title, heading = passage.metadata["title"], passage.metadata["heading"]
    headings = heading.split(" > ") if heading else []
    path = headings if title in headings else [title, *headings]
    return f"{' > '.join(path)}\n{passage.text}"


def check_whole(
    served: Mapping[str, object],
    before: Mapping[str, object],
    after: Mapping[str, object],
    *,
    at_once: bool,
) -> None:
    """Check that every document is old or new; with `at_once`, all are in the same state."""
    for uri in before.keys() | after.keys() | served.keys():
        assert served.get(uri) in (before.get(uri), after.get(uri)), uri
    if at_once:
        assert served in (before, after)


def check_file(
    path: Path, expected: Mapping[str, Passages], successors: Mapping[str, bool]
) -> None:
    """Check that a SQLite file holds exactly what is served: no stale chunk, vector or document.

    Args:
        path: the file.
        expected: the passages of each knowledge base.
        successors: whether a knowledge base may have an unfinished new index.
    """
    with closing(sqlite3.connect(path)) as db:
        indexes = db.execute(
            "select index_uid, kb, number, state, live, entered from catalog_indexes"
        ).fetchall()
        uids = {index_uid for index_uid, *_ in indexes}
        for table in ("catalog_versions", "catalog_chunks", "store_vectors", "store_spaces"):
            spaces = db.execute(f"select distinct space from {table}")
            assert {space for (space,) in spaces} <= uids
        for index_uid, kb, number, state, *counted in indexes:
            if state != "active":
                assert state == "building"
                assert successors[kb]
                continue
            served = {uri: len(matches) for uri, matches in expected[kb].items()}
            assert counted == [sum(served.values())] * 2
            _check_index(db, index_uid, served)
            documents = db.execute(
                "select uri, state, chunk_count, generation from catalog_documents"
                " where kb = ? and number = ?",
                (kb, number),
            ).fetchall()
            assert {state for _, state, *_ in documents} == {"ready"}
            assert {uri: chunks for uri, _, chunks, _ in documents if chunks} == served
            versions = "select uri, generation, state from catalog_versions where space = ?"
            live = {(uri, generation, LIVE) for uri, *_, generation in documents}
            assert set(db.execute(versions, (index_uid,))) == live


def _check_index(db: sqlite3.Connection, index_uid: int, served: Mapping[str, int]) -> None:
    """Check that the chunks of an index agree with its vectors, words, terms and documents."""
    chunks = db.execute(
        "select c.number, v.uri from catalog_chunks as c"
        " left join catalog_versions as v on v.version = c.version where c.space = ?",
        (index_uid,),
    ).fetchall()
    assert Counter(uri for _, uri in chunks) == served
    numbers = {number for number, _ in chunks}
    vectors = db.execute("select number from store_vectors where space = ?", (index_uid,))
    assert {number for (number,) in vectors} == numbers
    for kind in (WORDS, TERMS):
        arrays = "select numbers, gone from catalog_segments where space = ? and kind = ?"
        written, gone = (
            set(np.concatenate([np.frombuffer(array, "<i8") for array in column]).tolist())
            for column in zip((b"", b""), *db.execute(arrays, (index_uid, kind)), strict=True)
        )
        assert written - gone == numbers
    staged = "select count(*) from catalog_terms where space = ?"
    assert db.execute(staged, (index_uid,)).fetchone() == (0,)
