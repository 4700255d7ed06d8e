"""Near duplicates are found only once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_knowledge.records import DocumentMatch
from lorebind_knowledge.retrieval.diversity import SIMILAR, without_repeats

from .bench import Bench

LONG = " ".join(f"word{number}" for number in range(40))
words = st.sampled_from(["a", "b", "c", "Keys", "rotate"])
texts = st.lists(words, max_size=8).map(" ".join)


def match(text: str, uri: str) -> DocumentMatch:
    return DocumentMatch(uri, 0.5, 0.5, {"dense": 0.5}, text, {"uri": uri, "title": "T"})


def unique(*passages: str) -> list[str]:
    hits = [match(text, str(at)) for at, text in enumerate(passages)]
    return [match.id for match in without_repeats(hits)]


@pytest.mark.parametrize(
    ("first", "other", "same"),
    [
        (LONG, LONG, True),
        (LONG, LONG.upper() + "!", True),
        (LONG, LONG + " more", True),  # 38 of 39 runs
        (LONG, LONG.replace("word0", "first"), True),  # 37 of 39 runs
        (LONG, LONG.replace("word20 ", "other "), False),  # 35 of 41 runs
        (LONG, LONG[: len(LONG) // 2], False),
        (LONG, " ".join(reversed(LONG.split())), False),
        ("two words", "two words", True),
        ("two words", "two  words", True),
        ("two words", "two sword", False),
        ("see keys now", "see keys later", False),
        ("?!", "?!", True),
        ("?!", "!?", False),
    ],
)
def test_what_counts_as_the_same(first: str, other: str, same: bool) -> None:
    """Duplicates share nine tenths of all three-word runs, ignoring case and punctuation."""
    assert unique(first, other) == (["0"] if same else ["0", "1"])
    assert unique(other, first) == (["0"] if same else ["0", "1"])


def test_where_the_others_are() -> None:
    """The best match does not change, and names the other documents once each, sorted."""
    hits = [match(LONG, "b"), match("else", "d"), match(LONG, "c"), match(LONG, "a")]
    best, other = without_repeats([*hits, match(LONG, "c")])
    assert (best.id, best.text, best.score) == ("b", LONG, 0.5)
    assert best.metadata == {"uri": "b", "title": "T", "also_in": ["a", "c"]}
    assert other is hits[1]
    assert "also_in" not in hits[0].metadata


def runs(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return set(zip(words, words[1:], words[2:], strict=False))


@given(st.lists(st.lists(st.integers(0, 59), max_size=4), max_size=20))
def test_same_as_comparing_each_with_each(changes: list[list[int]]) -> None:
    """A passage is dropped if it shares nine tenths of its runs with an earlier one that stays."""
    passages = []
    for changed in changes:
        words = [f"w{number}" for number in range(60)]
        for at in changed:
            words[at] = "x"
        passages.append(" ".join(words))
    staying: list[int] = []
    for at, text in enumerate(passages):
        pairs = ((runs(text), runs(passages[other])) for other in staying)
        if not any(len(first & two) >= SIMILAR * len(first | two) for first, two in pairs):
            staying.append(at)
    assert unique(*passages) == [str(at) for at in staying]


@given(st.lists(texts, max_size=12))
def test_a_beginning_has_the_same_survivors(passages: list[str]) -> None:
    """A prefix has the same survivors, the first remains, and a second pass drops nothing."""
    hits = [match(text, str(at)) for at, text in enumerate(passages)]
    every = without_repeats(hits)
    names = [hit.id for hit in every]
    assert [match.id for match in without_repeats(every)] == names
    for count in range(len(hits) + 1):
        first = [match.id for match in without_repeats(hits[:count])]
        assert first == names[: len(first)]
        assert first[:1] == [hit.id for hit in hits[: min(count, 1)]]


async def repeated(bench: Bench) -> Bench:
    """Return a bench with six documents that repeat each other, and four different ones."""
    for number in range(6):
        bench.write(f"same/{number}.md", "Rotate the keys in the console every ninety days.")
    for number, word in enumerate(("orchard", "violin", "harbour", "glacier")):
        bench.write(f"own/{number}.md", f"Rotate {word} {word}s where the {word}ly one stands.")
    await bench.ingest()
    return bench


@pytest.mark.parametrize("strategy", ["similarity", "lexical", "hybrid", "mmr"])
async def test_as_many_as_asked_nevertheless(bench: Bench, strategy: str) -> None:
    """Dropped duplicates make room for the next matches."""
    await repeated(bench)
    for top_k in (1, 2, 3, 5):
        result = await bench.ask("rotate the keys", strategy=strategy, top_k=top_k)
        assert len(result) == len({hit.text for hit in result}) == top_k
        assert result.matches[0].metadata["uri"].startswith("docs/same/")
    (same,) = (hit for hit in result if hit.metadata["uri"].startswith("docs/same/"))
    assert len(same.metadata["also_in"]) == 5
    others = [hit for hit in result if hit is not same]
    assert not any("also_in" in hit.metadata for hit in others)


async def test_many_repeats(bench: Bench) -> None:
    """Different passages are found even if most passages repeat the best one."""
    for number in range(60):
        bench.write(f"same/{number}.md", "Rotate the keys in the console every ninety days.")
    bench.write("own.md", "Rotate orchards.")
    await bench.ingest()
    for strategy in ("similarity", "lexical", "hybrid"):
        result = await bench.ask("rotate the keys", strategy=strategy, top_k=2)
        texts = [hit.text for hit in result]
        assert texts == ["Rotate the keys in the console every ninety days.", "Rotate orchards."]


async def test_dedupe_switched_off(bench: Bench) -> None:
    """A knowledge base with `dedupe: false` returns every passage."""
    await repeated(bench)
    bench.change(dedupe=False)
    result = await bench.ask("rotate the keys", strategy="similarity", top_k=6)
    assert len({hit.text for hit in result}) == 1
    assert len(result) == 6
    assert not any("also_in" in hit.metadata for hit in result)


def test_so_many_and_no_more() -> None:
    """With a limit, the first passages up to the limit are kept, and no others are inspected."""
    texts = [" ".join(f"{word}{at}" for word in ("one", "two", "three", "four")) for at in range(9)]
    hits = [match(text, f"{at}") for at, text in enumerate(texts)]
    repeated = [*hits[:2], match(texts[1], "again"), *hits[2:]]
    every = without_repeats(repeated)

    def endless() -> Iterator[DocumentMatch]:
        yield from repeated[:5]
        pytest.fail("looked further than it had to")

    first = without_repeats(endless(), 3)
    assert [hit.id for hit in first] == [hit.id for hit in every[:3]]
    assert first[1].metadata == every[1].metadata
