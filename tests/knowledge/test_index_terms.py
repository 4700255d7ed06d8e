"""The terms of a sparse embedder in an index: live passages only, whatever was interrupted."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from math import log1p
from typing import Any

import numpy as np
import pytest

from lorebind_config.errors import UsageError
from lorebind_knowledge.catalog.terms import StoredTerms
from lorebind_knowledge.embedders.base import Fingerprint
from lorebind_knowledge.index.adding_terms import (
    add_terms,
    bare_texts,
    begin_terms,
    complete_terms,
    is_of,
    passages_without_terms,
)
from lorebind_knowledge.index.view import View
from lorebind_knowledge.records import Record, SparseVector
from lorebind_knowledge.testing.index_driver import HERE, Driver, record

from .every_catalog import OnEveryCatalog

SPARSE = Fingerprint("tests", "sparse-1")


def sparse(weights: Mapping[int, float]) -> SparseVector:
    ids = sorted(weights)
    return SparseVector(np.array(ids, np.int64), np.array([weights[i] for i in ids], np.float32))


def chunk(name: str, weights: Mapping[int, float] | None = None, **options: Any) -> Record:
    terms = None if weights is None else sparse(weights)
    return replace(record(name, **options), terms=terms)


def found(
    to: Driver, weights: Mapping[int, float], where: Mapping[str, Any] | None = None
) -> dict[str, float]:
    """Return the scores of chunks by id, in the order of a search by terms."""
    question = sparse(weights)

    def ask(view: View) -> dict[str, float]:
        hits = view.terms_search(question, 100, where)
        scores = view.terms(question).scores(hits.numbers)
        assert scores.tolist() == hits.scores.tolist()
        return dict(zip(hits.ids, scores.tolist(), strict=True))

    return to.index.read(HERE, ask)


def by_hand(
    live: Mapping[str, Mapping[int, float]], question: Mapping[int, float]
) -> dict[str, float]:
    """Return the scores of chunks, computed from all their terms by the formula."""
    scores = dict.fromkeys(live, 0.0)
    for term, weight in question.items():
        having = sum(term in terms for terms in live.values())
        rarity = log1p((len(live) - having + 0.5) / (having + 0.5))
        for name, terms in live.items():
            if term in terms:
                largest = max(terms.values())
                stored = max(round(terms[term] / largest * 255), 1) / 255 * largest
                scores[name] += weight * rarity * stored
    return {name: score for name, score in scores.items() if score}


LIBRARY: dict[str, dict[int, float]] = {
    "a": {1: 2.0, 5: 0.7, 70_000: 1.25},
    "b": {1: 0.6, 2**31 - 1: 3.0},
    "c": {5: 1.9},
    "d": {},
}


class TestTerms(OnEveryCatalog):
    @pytest.fixture(autouse=True)
    def _books(self, to: Driver) -> None:
        to.open()
        to.add(*(chunk(name, terms) for name, terms in LIBRARY.items()))

    def test_scores(self, to: Driver) -> None:
        """A score is the product of the terms, each weighed by its rarity; best first."""
        question = {1: 1.0, 5: 0.5, 2**31 - 1: 0.25, 9: 7.0}
        scores = found(to, question)
        assert scores == pytest.approx(by_hand(LIBRARY, question), rel=1e-4)
        assert list(scores.values()) == sorted(scores.values(), reverse=True)
        assert found(to, {9: 1.0}) == found(to, {}) == {}

    def test_a_filter(self, to: Driver) -> None:
        """Only chunks that pass the filter are returned; the filter is checked."""
        to.add(chunk("e", {1: 9.0}, uri="e.md", shelf=3))
        assert list(found(to, {1: 1.0}, where={"shelf": 3})) == ["e"]
        assert found(to, {1: 1.0}, where={"shelf": 4}) == {}
        with pytest.raises(UsageError, match=r"\$most"):
            found(to, {1: 1.0}, where={"shelf": {"$most": 4}})

    def test_shares(self, to: Driver) -> None:
        """The share of each term in a score is known, and they add up to it."""
        question = sparse({1: 1.0, 5: 0.5, 9: 1.0})
        (a,) = to.fetch("a").values()

        def ask(view: View) -> tuple[dict[int, float], float]:
            terms = view.terms(question)
            return terms.shares(a.number), terms.scores(np.array([a.number])).item()

        shares, score = to.index.read(HERE, ask)
        assert list(shares) == [1, 5]
        assert sum(shares.values()) == pytest.approx(score)

    def test_terms_follow_their_chunks(self, to: Driver) -> None:
        """Only live chunks have terms; unchanged ones keep theirs."""
        to.stage(chunk("a", None, generation=2, text="a"), chunk("n", {1: 1.0}, generation=2))
        assert set(found(to, {1: 1.0})) == {"a", "b"}
        to.publish(generation=2)
        assert set(found(to, {1: 1.0})) == {"a", "n"}
        to.stage(chunk("x", {1: 1.0}, uri="x.md"))
        to.sweep(abandon=True)
        to.publish("x.md", 2)
        assert set(found(to, {1: 1.0})) == {"a", "n"}
        to.remove("a.md")
        assert found(to, {1: 1.0, 5: 1.0}) == {}
        with to.catalog.reading() as sql:
            assert sql.run("select count(*) from catalog_terms") == [(0,)]

    def test_a_dropped_index_leaves_no_terms(self, to: Driver) -> None:
        """An index that is dropped leaves neither postings nor staged terms."""
        to.stage(chunk("x", {1: 1.0}, uri="x.md"))
        entry = to.entry()
        to.catalog.ledger.retire_index(to.lease(), entry.key)
        to.drop(entry)
        with to.catalog.reading() as sql:
            for table in ("segments", "postings", "terms"):
                assert sql.run(f"select count(*) from catalog_{table}") == [(0,)]

    @pytest.mark.parametrize("seed", range(3))
    def test_any_edits(self, to: Driver, seed: int) -> None:
        """After any edits, removals and interruptions, scores are those of the live chunks."""
        case = random.Random(seed)
        live: dict[str, dict[str, dict[int, float]]] = {"a.md": LIBRARY}
        for generation in range(2, 40):
            uri = case.choice(["a.md", "b.md", "c.md"])
            chunks = {
                f"{uri} {case.randrange(9)}": {
                    case.randrange(6): round(case.uniform(0.1, 4), 2)
                    for _ in range(case.randrange(5))
                }
                for _ in range(case.randrange(6))
            }
            chunks = {name: live.get(uri, {}).get(name, terms) for name, terms in chunks.items()}
            to.stage(
                *(chunk(name, t, uri=uri, generation=generation) for name, t in chunks.items())
            )
            match case.randrange(6):
                case 0:
                    to.sweep(abandon=True)
                case 1:
                    to.remove(uri)
                    live.pop(uri, None)
                case _:
                    to.publish(uri, generation)
                    live[uri] = chunks
        together = {name: terms for chunks in live.values() for name, terms in chunks.items()}
        for question in ({1: 1.0}, {0: 0.5, 2: 1.0, 5: 2.0}):
            assert found(to, question) == pytest.approx(by_hand(together, question), rel=1e-4)
        assert passages_without_terms(to.index, to.entry()) == []


class TestAddingTerms(OnEveryCatalog):
    def test_terms_are_added_to_an_index(self, to: Driver) -> None:
        """An index without terms gets them batch by batch; nothing else of it changes."""
        entry = to.open()
        to.add(*(chunk(name, context="Title", text=f"text of {name}") for name in LIBRARY))
        to.add(chunk("e", uri="e.md"))
        before = to.search()
        entry = begin_terms(to.index, to.lease(), entry, SPARSE)
        assert (entry.manifest.sparse, entry.manifest.terms_complete) == ("tests/sparse-1", False)
        assert to.entry().manifest == entry.manifest
        numbers = passages_without_terms(to.index, entry)
        texts = bare_texts(to.index, entry, numbers)
        assert texts[numbers[0]].text == "Title\ntext of a"
        assert {(text.uri, text.language) for text in texts.values()} == {
            *(("a.md", "en"), ("e.md", "en"))
        }
        uris = {number: text.uri for number, text in texts.items()}
        vectors = dict(zip(numbers, map(sparse, [*LIBRARY.values(), {7: 1.0}]), strict=True))
        for number in numbers:
            add_terms(to.index, to.lease(), entry, uris, {number: vectors[number]})
            assert number not in passages_without_terms(to.index, entry)
        version = to.index.version(HERE)
        entry = complete_terms(to.index, to.lease(), entry)
        assert to.entry().manifest.terms_complete
        assert to.index.version(HERE) != version
        question = {1: 1.0, 5: 0.5, 7: 1.0}
        assert found(to, question) == pytest.approx(
            by_hand({**LIBRARY, "e": {7: 1.0}}, question), rel=1e-4
        )
        assert to.search() == before

    def test_another_sparse_embedder(self, to: Driver) -> None:
        """The terms of another sparse embedder are dropped, also those that are staged."""
        entry = to.open()
        entry = begin_terms(to.index, to.lease(), entry, SPARSE)
        to.add(*(chunk(name, terms) for name, terms in LIBRARY.items()))
        to.stage(chunk("x", {1: 1.0}, uri="x.md"))
        assert begin_terms(to.index, to.lease(), entry, SPARSE) is entry
        for fingerprint in (replace(SPARSE, model="sparse-2"), None):
            entry = begin_terms(to.index, to.lease(), entry, fingerprint)
            assert is_of(entry.manifest, fingerprint)
            assert entry.manifest.terms_complete == (fingerprint is None)
            assert len(passages_without_terms(to.index, entry)) == len(LIBRARY)
            assert found(to, {1: 1.0}) == {}
        to.publish("x.md")
        assert found(to, {1: 1.0}) == {}


@pytest.mark.parametrize(
    "weights", [{}, {0: 1e-9}, {3: 1.0}, {2**31 - 1: 65_000.0, 4: 0.001}, {9: 1e9, 1: 1.0}]
)
def test_stored_terms(weights: dict[int, float]) -> None:
    """Terms are stored within 1/255 of the largest weight; none gets lost."""
    stored = StoredTerms.decode(StoredTerms.of(sparse(weights)).encode())
    assert stored.ids.tolist() == sorted(weights)
    assert (stored.weights > 0).all()
    passage = stored.passage(1, "a.md")
    stored_weights = dict(zip(passage.terms, passage.weights, strict=True))
    largest = min(max(weights.values(), default=0.0), 2**16)
    for term, weight in weights.items():
        share = stored_weights[str(term)] / 255 * passage.length / 2**16
        assert share == pytest.approx(min(weight, 2**16), abs=largest / 255 + 2**-16)
