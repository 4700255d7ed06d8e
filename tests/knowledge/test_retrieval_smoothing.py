"""Smoothing: the influence of near documents on a passage's score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_config.declarations.base import RefusedError
from lorebind_config.declarations.retrieval import FusionDeclaration, SmoothingDeclaration
from lorebind_knowledge.retrieval.query import Candidates
from lorebind_knowledge.retrieval.strategies import scores_of_near_documents, smooth

from .bench import Bench

EAST, NORTH = (1.0, 0.0), (0.0, 1.0)
SLANTED = (0.6, 0.8)


def near(figures: list[float], documents: str, vectors: list[Any], count: int) -> list[float]:
    matrix = np.array(vectors, np.float32)
    return scores_of_near_documents(np.array(figures), documents, matrix, count).tolist()


def test_the_nearest_document_by_hand() -> None:
    """The best passage of the nearest document counts, equally for all passages of a document."""
    # Document a points east, c north, and b between them.
    vectors = [EAST, SLANTED, EAST, NORTH]
    assert near([1, 0.8, 0.6, 0.4], "abac", vectors, 1) == pytest.approx([0.8, 0.4, 0.8, 0.8])


def test_several_documents_by_hand() -> None:
    """Near documents are weighted by their cosines; a count above their number means all others."""
    expected = [0.8, (0.6 * 1 + 0.8 * 0.4) / 1.4, 0.8]
    for count in (2, 9):
        got = near([1, 0.8, 0.4], "abc", [EAST, SLANTED, NORTH], count)
        assert got == pytest.approx(expected)


def test_the_direction_of_a_document() -> None:
    """A document's direction is the sum of its passages, so one in the middle is near to both."""
    vectors = [EAST, NORTH, (0.7071, 0.7071), (0.6, -0.8)]
    assert near([1, 0.9, 0.5, 0.1], "aabc", vectors, 1)[:2] == pytest.approx([0.5, 0.5])


def test_a_document_that_is_alone() -> None:
    """A single document gets its own best score, so that the order does not change."""
    assert near([0.9, 0.3], "aa", [EAST, NORTH], 5) == [0.9, 0.9]


def test_documents_that_are_not_near_at_all() -> None:
    """Unrelated documents count equally, and a document without a direction raises no error."""
    assert near([0.9, 0.6, 0.2], "abc", [EAST, NORTH, (0, 0)], 2) == pytest.approx(
        [0.4, 0.55, 0.75]
    )


def test_the_mix() -> None:
    """The weight is the documents' share of the fused score, and the order follows the mix."""
    figures, fused = {"dense": np.full(3, 0.8)}, np.array([0.6, 1.0, 0.5])
    hits = Candidates([("docs", at, "bac"[at]) for at in range(3)], np.zeros(3), figures)
    vectors = np.array([EAST, NORTH, (0.28, 0.96)], np.float32)
    got = smooth(hits, fused, "bac", vectors, SmoothingDeclaration(weight=0.5, documents=1))
    mixed = {hit.id: (hit.scores["smoothed"], hit.scores["fused"]) for hit in got}
    assert mixed == {"a": (0.5, 0.75), "c": (1.0, 0.75), "b": (0.5, 0.55)}
    assert [(hit.id, hit.score) for hit in got] == [
        ("a", 0.8),
        ("c", 0.8),
        ("b", pytest.approx(0.8 * 0.55 / 0.75)),
    ]
    nothing = np.zeros((0, 2), np.float32)
    assert not smooth(hits[:0], fused[:0], [], nothing, SmoothingDeclaration(weight=0.5))


@pytest.mark.parametrize("dimension", [4, 20_000], ids=["one tile", "several tiles"])
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 5)), min_size=1, max_size=30))
def test_same_as_by_the_definition(dimension: int, passages: list[tuple[float, int]]) -> None:
    """For any documents, grouped sums and tiles equal what is computed one document at a time."""
    figures, documents = zip(*passages, strict=True)
    drawn = np.random.default_rng(3).normal(size=(len(figures), dimension))
    # Without something in common, vectors of many numbers are all equally far from each other.
    vectors = (drawn + np.linspace(-1, 1, len(figures))[:, None]).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    owners = np.array(documents)
    names = set(documents)
    best = {
        name: max(f for f, d in zip(figures, documents, strict=True) if d == name) for name in names
    }
    sums = {name: vectors[owners == name].sum(axis=0) for name in names}
    units = {name: sums[name] / np.linalg.norm(sums[name]) for name in names}
    expected = []
    for name in documents:
        others = sorted(names - {name}, key=lambda other: -float(units[name] @ units[other]))[:2]
        weights = [max(float(units[name] @ units[other]), 1e-9) for other in others]
        parts = [w * best[other] for w, other in zip(weights, others, strict=True)]
        expected.append(sum(parts) / sum(weights) if others else best[name])
    got = scores_of_near_documents(np.array(figures), documents, vectors, 2)
    assert got.tolist() == pytest.approx(expected, abs=1e-4)


def test_ranks_are_not_smoothed() -> None:
    """`rrf` has no scores to mix, and raises an error instead of ignoring the setting."""
    with pytest.raises((RefusedError, ValueError), match="rrf cannot smooth"):
        FusionDeclaration.model_validate({"method": "rrf", "smoothing": {"weight": 0.3}})
    FusionDeclaration.model_validate({"method": "rrf", "smoothing": {"documents": 3}})


async def test_a_search_that_smooths(bench: Bench) -> None:
    """Of documents with equal scores, those near to other matches come first."""
    bench.write("a.md", "pump valve turbine engine")
    bench.write("b.md", "pump violin orchard harbour")
    bench.write("c.md", "valve turbine engine pump motor")
    bench.write("d.md", "glacier turbine engine valve motor")
    await bench.ingest()
    plain = await bench.ask("pump", top_k=4)
    smoothed = await bench.ask("pump", top_k=4, fusion={"smoothing": {"weight": 0.5}})
    assert not any("smoothed" in hit.scores for hit in plain)
    before = {hit.id: hit.scores for hit in plain}
    for hit in smoothed:
        mixed = (before[hit.id]["fused"] + hit.scores["smoothed"]) / 2
        assert hit.scores["fused"] == pytest.approx(mixed, abs=2e-6)
    fused = [hit.scores["fused"] for hit in smoothed]
    assert fused == sorted(fused, reverse=True)
    first = [
        hit.id for hit in await bench.ask("pump", top_k=2, fusion={"smoothing": {"weight": 0.5}})
    ]
    assert first == [hit.id for hit in smoothed][:2]
