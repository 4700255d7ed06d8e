"""`semantic`: chunks about one subject, within their bounds, with or without an embedder."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorebind_config.errors import EmbedderError
from lorebind_knowledge.chunking.changes import distances, lexical_vectors
from lorebind_knowledge.chunking.rulers import CharacterRuler, count_tokens
from lorebind_knowledge.chunking.semantic import (
    NO_EMBEDDER,
    Segment,
    SemanticChunker,
    pack,
    segments,
)
from lorebind_knowledge.chunking.semantic_settings import SemanticDeclaration
from tests.density import examples

from .chunking_texts import TEXTS, check_promises, headings

SUBJECTS = ("tide", "loom", "rye")
TIDE = "The tide comes in. A tide goes out. Each tide has its hour. No tide waits."
LOOM = "A loom holds threads. The loom beats. My loom is old. Your loom is new."
RYE = "Rye grows tall. Some rye is cut. All rye is dried. Good rye makes bread."
TEXT = f"{TIDE} {LOOM} {RYE}"
WORDS = [
    "Bread dough rises. Bread dough rests. Bread dough bakes. Bread dough cools.",
    "Tall ships sail. Tall ships turn. Tall ships sink. Tall ships rot.",
    "Ripe plums fall. Ripe plums burst. Ripe plums dry. Ripe plums taste.",
]
MEASURES = ("threshold", "structural_weight", "window", "min_tokens", "max_tokens")
USUAL = dict(zip(MEASURES, (90, 0.2, 3, 4, 64), strict=True))


def semantic(rule: str = "percentile", *values: float, **named: float) -> SemanticDeclaration:
    """Return settings that may also be smaller than those that can be declared."""
    settings = {**USUAL, **dict(zip(USUAL, values, strict=False)), **named}
    return SemanticDeclaration.model_construct(breakpoints=rule, **settings)  # type: ignore[arg-type]


SMALL = semantic(window=1)


def embed(texts: Sequence[str]) -> np.ndarray:
    """Return one direction per subject."""
    rows = [[float(subject in text.lower()) for subject in SUBJECTS] for text in texts]
    return np.array(rows, dtype=np.float32)


def refuse(texts: Sequence[str]) -> np.ndarray:
    """Raise the error of an embedder that is down."""
    raise EmbedderError("embedder local/x failed: out of memory")


def _split(chunker: SemanticChunker, text: str, boundaries: Sequence[int] = ()) -> list[str]:
    return [text[start:end] for start, end in chunker.split(text, 0, len(text), boundaries)]


@pytest.mark.parametrize(
    ("rule", "threshold"),
    [("percentile", 90), ("standard_deviation", 1.5), ("interquartile", 1.5), ("gradient", 90)],
)
def test_a_passage_ends_with_its_subject(rule: str, threshold: float) -> None:
    """With each rule, sentences about one subject form one chunk, here without any layout."""
    chunker = SemanticChunker(semantic(rule, threshold, 0.2, 1), embed)
    assert _split(chunker, TEXT) == [TIDE, LOOM, RYE]
    assert list(chunker.notices) == []


def test_without_an_embedder_words_are_compared() -> None:
    """Sentences that share words stay together, and the chunker reports the fallback."""
    chunker = SemanticChunker(semantic())
    assert _split(chunker, " ".join(WORDS)) == WORDS
    assert list(chunker.notices) == [NO_EMBEDDER]


def test_when_the_embedder_fails_words_are_compared() -> None:
    """If the embedder fails, the document is still split, and the reason is reported once."""
    settings_ = semantic()
    chunker = SemanticChunker(settings_, refuse)
    assert _split(chunker, TEXT) == _split(SemanticChunker(settings_), TEXT)
    _split(chunker, TEXT)
    (notice,) = chunker.notices
    assert "compared words instead of meanings" in notice
    assert "out of memory" in notice


def test_only_embedder_errors_are_met() -> None:
    """Errors other than those of the embedder are bugs and are raised."""

    def broken(texts: Sequence[str]) -> np.ndarray:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _split(SemanticChunker(SMALL, broken), TEXT)


def test_layout_counts_by_its_weight() -> None:
    """A heading ends a chunk if words alone would not, unless the weight of layout is 0."""
    text = TIDE.replace("Each", "\n\n# Hours\n\nEach")
    boundaries = headings(text)
    with_layout = SemanticChunker(semantic("percentile", 90, 1, 1), embed)
    without = SemanticChunker(semantic("percentile", 90, 0, 1), embed)
    assert [chunk[:7] for chunk in _split(with_layout, text, boundaries)] == ["The tid", "# Hours"]
    assert len(_split(without, text, boundaries)) == 1


def test_long_passages_are_cut_at_their_greatest_change() -> None:
    """A long passage is split where its subject changes most, in the second half of the limit."""
    text = " ".join(f"The tide of day {day} came." for day in range(40))
    text = text.replace("day 7 came. ", "day 7 came.\n\n")
    chunks = _split(SemanticChunker(semantic("percentile", 100, 0.5, 1), embed), text)
    assert chunks[0].endswith("day 7 came.")
    assert all(32 <= count_tokens(chunk) <= 64 for chunk in chunks[1:-1])


def test_small_passages_join_a_neighbour() -> None:
    """A chunk with fewer tokens than the minimum joins its neighbor."""
    text = f"{TIDE} A loom. {RYE}"
    chunks = _split(SemanticChunker(semantic("percentile", 50, 0, 1, 8, 64), embed), text)
    assert chunks == [TIDE, f"A loom. {RYE}"]


def test_small_passages_join_only_what_they_fit_with() -> None:
    """A small chunk between two full ones stays as it is; it prefers to join the previous one."""
    parts = [Segment(0, 9, 0), Segment(9, 12, 0), Segment(12, 21, 0), Segment(21, 23, 0)]
    every_gap = {0, 1, 2}
    packed = pack(CharacterRuler(), parts, [1.0, 1.0, 1.0], every_gap, (4, 11))
    assert packed == [(0, 9), (9, 12), (12, 23)]


def test_passages_are_counted_by_themselves() -> None:
    """A chunk is cut if its first word has too many tokens without its leading blank."""
    text = "Jklmn. Xylos. Donaudampfx. Jklmnx."
    assert count_tokens(" Donaudampfx. Jklmnx.") == 10
    chunks = _split(SemanticChunker(semantic(window=1, min_tokens=1, max_tokens=10)), text)
    assert chunks == ["Jklmn. Xylos.", "Donaudampfx.", "Jklmnx."]


@settings(max_examples=examples(150), deadline=None)
@given(TEXTS, st.integers(1, 60), st.integers(64, 100), st.integers(1, 4))
def test_bounds(text: str, least: int, most: int, window: int) -> None:
    """No chunk is too large, none overlap, and a small one would not fit with a neighbor."""
    chunker = SemanticChunker(semantic("percentile", 50, 0.2, window, least, most), embed)
    chunks = check_promises(chunker, text, most, "tokens", headings(text))
    assert all(end <= start for (_, end), (start, _) in pairwise(chunks))
    slack = 3  # a chunk encoded alone can have other tokens than its share of the whole text
    for (first, middle), (start, last) in pairwise(chunks):
        small = min(count_tokens(text[first:middle]), count_tokens(text[start:last])) + slack
        assert small >= least or count_tokens(text[first:last]) + slack > most


def test_sentences_are_embedded_once_and_in_batches() -> None:
    """The embedder gets each segment once, in calls of at most 256, and memory is bounded."""
    seen: list[list[str]] = []

    def noting(texts: Sequence[str]) -> np.ndarray:
        seen.append(list(texts))
        return embed(texts)

    text = " ".join(f"The tide of day {day} came." for day in range(600))
    _split(SemanticChunker(SMALL, noting), text)
    assert [len(batch) for batch in seen] == [256, 256, 88]
    assert " ".join(sentence for batch in seen for sentence in batch) == text


def test_a_small_document_is_not_embedded() -> None:
    """A document with no more tokens than the minimum is one chunk and is not embedded."""
    assert _split(SemanticChunker(semantic(), refuse), "One. Two.") == ["One. Two."]


@settings(max_examples=examples(50), deadline=None)
@given(st.integers(1, 700), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_distances_do_not_depend_on_batches(count: int, window: int, seed: int) -> None:
    """Each distance equals that of the two means over all vectors at once."""
    vectors = np.random.default_rng(seed).random((count, 3), dtype=np.float32)
    rows = iter(vectors)
    gaps = distances(
        [str(index) for index in range(count)],
        lambda texts: np.stack([next(rows) for _ in texts]),
        window,
    )
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert len(gaps) == count - 1
    borders = {gap for at in (0, 256, 512, count) for gap in range(at - 25, at + 25)}
    for gap in borders & set(range(count - 1)):
        before = units[max(0, gap + 1 - window) : gap + 1].mean(axis=0)
        after = units[gap + 1 : gap + 1 + window].mean(axis=0)
        cosine = before @ after / np.linalg.norm(before) / np.linalg.norm(after)
        assert gaps[gap] == pytest.approx(1 - cosine, abs=1e-5)


def test_what_has_no_words_is_far_from_everything() -> None:
    """A zero vector has the greatest distance; equal texts have none."""
    assert distances(["a b", "...", "a b"], lexical_vectors, 1) == [1.0, 1.0]
    assert distances(["a b", "b a"], lexical_vectors, 1) == [pytest.approx(0, abs=1e-6)]


def test_segments() -> None:
    """Sentences, items and headings are segments with their borders; tables and code are whole."""
    text = (
        "# Title\nOne, e.g. this. Two (by J. Smith)! “Three?” Four: 1.5 is 五。六。\n\n"
        "- Item one.\n- Item two.\n  1. Item three\n\n```\na. B.\n\nc. D.\n```\n"
        "| a. B | c |\n|---|---|\n| d. E | f |\n"
    )
    parts = segments(text, 0, len(text), headings(text))
    assert [(text[part.start : part.end], part.border) for part in parts] == [
        ("# Title\nOne, e.g. this.", 1.0),  # a heading stays with the beginning of its text
        ("Two (by J. Smith)!", 0.0),
        ("“Three?”", 0.0),
        ("Four: 1.5 is 五。", 0.0),
        ("六。", 0.0),
        ("- Item one.", 0.5),
        ("- Item two.", 0.25),
        ("1. Item three", 0.25),
        ("```\na. B.\n\nc. D.\n```", 0.5),
        ("| a. B | c |\n|---|---|\n| d. E | f |", 0.5),
    ]


@given(TEXTS)
def test_segments_cover_the_text(text: str) -> None:
    """Every character that is not white space is in exactly one segment."""
    covered = 0
    for segment in segments(text, 0, len(text), headings(text)):
        assert covered <= segment.start < segment.end
        assert not text[covered : segment.start].strip()
        covered = segment.end
    assert not text[covered:].strip()
