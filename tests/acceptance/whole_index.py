"""All that an index serves and all that its file holds, without the limits of a search."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from lorebind_knowledge.records import SearchOptions

from .noting_embedder import Noting

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lorebind import Project
    from lorebind_knowledge.catalog.ledger import IndexEntry
    from lorebind_knowledge.records import DocumentMatch

Passages: TypeAlias = "dict[str, list[DocumentMatch]]"
"""By document, in the order in which they stand there. Documents without any are left out."""

QUESTION = "everything there is"


def active_index(project: Project, kb_id: str) -> IndexEntry | None:
    kb = project.knowledge.knowledge_base(kb_id)
    return kb.catalog.ledger.index(kb.namespace, "active")


def all_passages(project: Project, kb_id: str, revision: str) -> Passages:
    """Every passage that a search with this embedder can find, scored by `QUESTION`."""
    index = active_index(project, kb_id)
    if index is None:
        return {}
    store = project.knowledge.knowledge_base(kb_id).store
    vector = np.array(Noting(revision).embed_query(QUESTION), np.float32)
    everything: Any = store.similarity_search(vector, SearchOptions(index.key, top_k=10**6))
    found: Passages = defaultdict(list)
    for match in everything:
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
    """A SQLite file holds what is served, and nothing that was: no record, word or document.

    Args:
        path: the file.
        expected: what each knowledge base serves.
        successors: whether one may have an index that was begun and not finished.
    """
    with sqlite3.connect(path) as db:
        indexes = db.execute("select key, kb, number from vector_indexes").fetchall()
        states = dict(db.execute("select kb || ' ' || number, state from catalog_indexes"))
        assert states.keys() == {f"{kb} {number}" for _, kb, number in indexes}
        for key, kb, number in indexes:
            if states[f"{kb} {number}"] != "active":
                assert states[f"{kb} {number}"] == "building"
                assert successors[kb]
                continue
            rows = "select row, uri, live from vector_records where index_key = ?"
            records = db.execute(rows, (key,)).fetchall()
            assert all(live for *_, live in records)
            served = {uri: len(found) for uri, found in expected[kb].items()}
            held: dict[str, int] = defaultdict(int)
            for _, uri, _ in records:
                held[uri] += 1
            assert held == served
            words = db.execute(f"select id from vector_words_{key}_docsize")
            assert {row for (row,) in words} == {row for row, *_ in records}
            documents = db.execute(
                "select uri, state, chunk_count, staged - generation from catalog_documents"
                " where kb = ? and number = ?",
                (kb, number),
            ).fetchall()
            assert {(state, ahead) for _, state, _, ahead in documents} == {("ready", 0)}
            assert {uri: chunks for uri, _, chunks, _ in documents if chunks} == served
    db.close()
