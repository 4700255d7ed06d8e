"""The terms of passages in segments: the same in SQLite and PostgreSQL, whatever is merged."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing

import numpy as np
import pytest

from lorebind_knowledge.catalog import postings, segments
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.postings import (
    MAX_WEIGHT,
    WORDS,
    Passage,
    Size,
    due_for_cleaning,
    due_for_merge,
    words_of,
    write,
)
from lorebind_knowledge.catalog.segments import (
    key_of,
    read_postings,
    read_segments,
    segments_of,
)
from lorebind_knowledge.database.sql import Sql
from lorebind_knowledge.testing.index_driver import Driver, record
from lorebind_knowledge.text.terms import index_terms, query_terms

from .every_catalog import OnEveryCatalog

SPACE, OTHER, KIND = 2**62 - 1, 7, 5
VOCABULARY = [
    *("Running", "runs", "naïve", "NAIVE", "x", "the", "max", "don't", "漢字", "42", "a" * 300),
]


def passages(*texts: str, first: int = 1) -> list[Passage]:
    numbered = enumerate(texts, first)
    return [words_of(number, f"{number}.md", text, "en") for number, text in numbered]


def stored(
    sql: Sql, terms: Sequence[str], space: int = SPACE, kind: int = WORDS
) -> dict[str, dict[int, int]]:
    """Return for each term the live passages that have it, with weights."""
    segments = read_segments(sql, segments_of(sql, space, kind))
    result: dict[str, dict[int, int]] = {term: {} for term in terms}
    for segment, term, part in read_postings(sql, segments, dict.fromkeys(terms, segments)):
        held = segments[segment].numbers
        later = [segments[other].gone for other in segments if other > segment]
        gone = set(np.concatenate([[], *later]).tolist())
        numbers = held[part.positions].tolist()
        for number, weight in zip(numbers, part.weights.tolist(), strict=True):
            if number not in gone:
                assert number not in result[term], "a passage is live in two segments"
                result[term][number] = weight
    return result


class TestFigures(OnEveryCatalog):
    @pytest.mark.parametrize(
        "question",
        [
            *("run naive", "naive Naive 漢字", "x" * 3 + " " + "a" * 300, "don't", "none such"),
            *("the", "42", " ".join(f"run word{number}" for number in range(200))),
        ],
    )
    def test_the_figures_are_those_of_fts5(self, to: Driver, question: str) -> None:
        """Each passage has the BM25 of SQLite's FTS5, whatever is added and removed."""
        rng = np.random.default_rng(5)
        texts = {
            f"{number}.md": " ".join(rng.choice(VOCABULARY, rng.integers(0, 30)))
            for number in range(60)
        }
        to.open()
        for start in range(0, 60, 12):
            uris = list(texts)[start : start + 12]
            to.add(*(record(uri, uri=uri, text=texts[uri]) for uri in uris))
        for uri in list(texts)[5:40:3]:
            to.remove(uri)
            del texts[uri]
        figures = {match.id: match.figure for match in to.words(question, k=100)}
        assert figures == pytest.approx(figures_of_fts5(texts, question), rel=1e-9)


def figures_of_fts5(texts: dict[str, str], question: str) -> dict[str, float]:
    """Return SQLite's own BM25 for a question."""
    match = " OR ".join(f'"{word}"' for word in query_terms(question, ["en"]).elements())
    if not match:
        return {}
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("create virtual table t using fts5 (uri unindexed, text, tokenize='ascii')")
        for uri, text in texts.items():
            db.execute("insert into t values (?, ?)", (uri, index_terms(text, "en")))
        return dict(db.execute("select uri, -rank from t where t match ?", (match,)).fetchall())


class TestPostings:
    def test_an_identifier_is_stored_by_its_words(self, catalog: Catalog) -> None:
        """An identifier finds passages with any of its words."""
        with catalog._database.writing() as sql:
            write(sql, SPACE, WORDS, passages("max_tokens", "token", "none"))
            assert stored(sql, ["max", "token"]) == {"max": {1: 1}, "token": {1: 1, 2: 1}}

    def test_passages_without_words(self, catalog: Catalog) -> None:
        """Passages without words are counted, and no term has them."""
        with catalog._database.writing() as sql:
            write(sql, SPACE, WORDS, passages("", "?!", "lamps and a lamp"))
            (segment,) = read_segments(sql, segments_of(sql, SPACE, WORDS)).values()
            assert segment.numbers.tolist() == [1, 2, 3]
            assert segment.lengths.tolist() == [0, 0, 4]
            assert stored(sql, ["lamp", "key"]) == {"lamp": {3: 2}, "key": {}}

    def test_terms_of_any_length_and_weight(self, catalog: Catalog) -> None:
        """Long terms are told apart, and a weight above the maximum counts as the maximum."""
        long = ["y" * 70 + "a", "y" * 70 + "b", "#" + "0" * 63, "y" * 64]
        terms = {term: 1000 * number + 3 for number, term in enumerate(long)}
        assert all(len(key_of(term)) <= 64 for term in long)
        with catalog._database.writing() as sql:
            write(sql, SPACE, KIND, [Passage(1, "a.md", 9, list(terms), list(terms.values()))])
            expected = {term: {1: min(weight, MAX_WEIGHT)} for term, weight in terms.items()}
            assert stored(sql, [*terms, "y"], kind=KIND) == {**expected, "y": {}}
            repeated = [term for term, times in terms.items() for _ in range(times)]
            write(sql, SPACE, WORDS, [Passage(1, "a.md", 9, repeated)])
            assert stored(sql, [*terms, "y"]) == {**expected, "y": {}}

    def test_more_terms_than_a_row_has(
        self, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Terms are found in whichever row they are; a term stays in one row."""
        monkeypatch.setattr(segments, "_TERMS_PER_ROW", 7)
        monkeypatch.setattr(segments, "_POSTINGS_PER_ROW", 20)
        terms = [f"t{number:03}" for number in range(100)]
        with catalog._database.writing() as sql:
            some = [
                Passage(number, "a.md", 1, [*terms[:: number + 1], "zz"] * (number + 1))
                for number in range(30)
            ]
            write(sql, SPACE, WORDS, some)
            for probe in (terms, ["zz"], ["a", "t0005", "zzz"]):
                expected = {
                    term: {p.number: p.terms.count(term) for p in some if term in p.terms}
                    for term in probe
                }
                assert stored(sql, probe) == expected

    def test_indexes_and_kinds_are_separate(self, catalog: Catalog) -> None:
        """Passages of other indexes and of other kinds of terms are not found."""
        with catalog._database.writing() as sql:
            write(sql, SPACE, WORDS, passages("keys"))
            write(sql, SPACE, KIND, [Passage(1, "a.md", 3, ["key"], [200])])
            write(sql, OTHER, WORDS, passages("keys", first=5))
            assert stored(sql, ["key"]) == {"key": {1: 1}}
            assert stored(sql, ["key"], kind=KIND) == {"key": {1: 200}}
            assert stored(sql, ["key"], OTHER) == {"key": {5: 1}}
            assert stored(sql, ["key"], OTHER, KIND) == {"key": {}}

    @pytest.mark.parametrize("seed", range(3))
    def test_any_changes(self, catalog: Catalog, seed: int) -> None:
        """After any publications the terms are those of the live passages; segments stay few.

        A passage may be gone, and come again with other terms under the same number.
        """
        case = random.Random(seed)
        live: dict[int, dict[str, int]] = {}
        dead: set[int] = set()
        number = 0
        with catalog._database.writing() as sql:
            for _ in range(150):
                come = []
                again = case.sample(sorted(dead), min(len(dead), case.choice([0, 0, 1, 5])))
                fresh = range(number, number := number + case.choice([0, 1, 1, 2, 30]))
                for number_ in [*again, *fresh]:
                    terms = case.sample("abcdefghijkl", case.randrange(5))
                    weights = [case.randrange(1, 255) for _ in terms]
                    come.append(Passage(number_, f"{number_ % 9}.md", len(terms), terms, weights))
                gone = case.sample(sorted(live), min(len(live), case.choice([0, 0, 1, 3, 40])))
                for each in gone:
                    del live[each]
                live |= {passage.number: dict(zip(*passage[3:], strict=True)) for passage in come}
                dead = dead.difference(again).union(gone)
                write(sql, SPACE, KIND, come, gone)
                segments = segments_of(sql, SPACE, KIND)
                assert len(segments) <= 40
            expected = {
                term: {number: of[term] for number, of in live.items() if term in of}
                for term in "abcdefghijklm"
            }
            assert stored(sql, list("abcdefghijklm"), kind=KIND) == expected
            held = read_segments(sql, segments)
            assert sum(len(segment.numbers) for segment in held.values()) <= 2 * len(live) + 100

    def test_a_segment_has_a_maximum(
        self, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """More passages than a position can name are stored in several segments."""
        monkeypatch.setattr(postings, "MAX_PASSAGES", 10)
        with catalog._database.writing() as sql:
            write(sql, SPACE, WORDS, passages(*["keys"] * 25))
            assert len(segments_of(sql, SPACE, WORDS)) == 3
            assert stored(sql, ["key"]) == {"key": dict.fromkeys(range(1, 26), 1)}


@pytest.mark.parametrize(
    ("passages", "merged"),
    [
        ([1] * 7, 0),
        ([1] * 8, 8),
        ([1] * 7 + [8], 8),
        ([1, 1, 8, 8, 8, 8, 8], 0),
        ([1, 1, 8, 8, 8, 8, 8, 8], 8),
        ([1] * 7 + [500], 0),
        ([1] * 7 + [505], 8),
        ([1] * 6 + [5000] * 20, 19),
        ([4000] * 8, 8),
        ([5000] * 8, 0),
        ([5000] * 10, 10),
        ([32_000] * 2, 2),
        ([33_000] * 2, 0),
    ],
)
def test_segments_of_similar_size_are_merged(passages: list[int], merged: int) -> None:
    """The newest segments are merged when there are enough of one size; the largest stay."""
    sizes = [Size(100 - place, count, 0) for place, count in enumerate(passages)]
    assert due_for_merge(sizes) == [size.segment for size in sizes[:merged]][::-1]


def test_passages_that_are_gone_are_cleaned_up() -> None:
    """Segments are rewritten when a quarter of their passages is gone, in groups that fit."""
    assert due_for_cleaning([Size(1, 100, 0), Size(2, 50, 63)]) == []
    assert due_for_cleaning([Size(2, 1000, 249)]) == []
    for sizes, groups in {
        (Size(2, 100, 0), Size(1, 156, 64)): [[1, 2]],
        (Size(3, 60_000, 0), Size(2, 1, 0), Size(1, 60_000, 40_000)): [[1, 2], [3]],
    }.items():
        due = due_for_cleaning(sizes)
        assert [[size.segment for size in group] for group in due] == groups
