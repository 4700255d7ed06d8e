"""Hits with their neighboring chunks show exactly the text of the document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from lorebind_config.declarations.retrieval import RetrievalDeclaration
from lorebind_config.namespace import Namespace
from lorebind_knowledge.chunking.base import Chunker
from lorebind_knowledge.records import DocumentMatch
from lorebind_knowledge.retrieval.search import search

from .bench import Bench

NUMBERS = [f"mark{number} says thing{number}." for number in range(12)]


class Pieces(Chunker):
    """Chunks of a fixed length, each starting a fixed distance from the previous one's end."""

    def __init__(self, size: int, overlap: int) -> None:
        self._size, self._overlap = size, overlap

    @property
    def fingerprint(self) -> str:
        return f"pieces/{self._size}/{self._overlap}"

    def split(
        self, text: str, start: int, end: int, boundaries: Sequence[int] = ()
    ) -> list[tuple[int, int]]:
        step = self._size - self._overlap
        starts = range(start, max(end - self._overlap, start + 1), step)
        return [(at, min(at + self._size, end)) for at in starts]


def text_of(bench: Bench, match: DocumentMatch) -> str:
    text: str = (bench.root / match.metadata["uri"]).read_text()
    return text[match.metadata["start"] : match.metadata["end"]]


async def filled(bench: Bench, chunker: Chunker) -> Bench:
    bench.write("a.md", " ".join(NUMBERS))
    bench.write("b.md", "Other things, about orchards and violins.")
    bench.change(chunker=chunker, dedupe=False)
    await bench.ingest()
    return bench


@pytest.mark.parametrize("overlap", [0, 7, 20])
@pytest.mark.parametrize("neighbours", [1, 2, 5])
async def test_joined_text_is_the_documents(bench: Bench, overlap: int, neighbours: int) -> None:
    """Touching or overlapping chunks join to exactly the slice of the document in their span."""
    await filled(bench, Pieces(30, overlap))
    for number in range(12):
        question = f"mark{number} thing{number}"
        plain = (await bench.ask(question, top_k=50)).matches
        grown = (await bench.ask(question, top_k=5, neighbours=neighbours)).matches
        ids = {hit.id for hit in grown}
        assert [hit.id for hit in grown] == [hit.id for hit in plain if hit.id in ids]
        for joined in grown:
            assert joined.text == text_of(bench, joined)
            (hit,) = (match for match in plain if match.id == joined.id)
            assert hit.text in joined.text
            assert (joined.score, joined.scores) == (hit.score, hit.scores)
            size = len((bench.root / joined.metadata["uri"]).read_text())
            step = 30 - overlap
            assert joined.metadata["start"] == max(hit.metadata["start"] - neighbours * step, 0)
            assert joined.metadata["end"] >= min(hit.metadata["end"] + step, size)


async def test_the_ends_of_a_document(bench: Bench) -> None:
    """Nothing is added before the first and after the last chunk, not even other documents."""
    await filled(bench, Pieces(30, 0))
    text = " ".join(NUMBERS)
    (first,) = (await bench.ask("mark0 thing0", top_k=1, neighbours=1)).matches
    assert (first.metadata["start"], first.text) == (0, text[:60])
    (last,) = (await bench.ask("mark11 thing11", top_k=1, neighbours=5)).matches
    assert last.metadata["end"] == len(text)
    assert text.endswith(last.text)
    (other,) = (await bench.ask("orchards", top_k=1, neighbours=5)).matches
    assert other.text == "Other things, about orchards and violins."


async def test_chunks_that_do_not_touch(bench: Bench) -> None:
    """Between paragraphs, where only whitespace was omitted, there is one line break."""
    bench.write("a.md", *(f"{number} {'word ' * 10}end{number}." for number in range(4)))
    await bench.ingest()
    plain = (await bench.ask("end1", top_k=1)).matches[0]
    (grown,) = (await bench.ask("end1", top_k=1, neighbours=1)).matches
    lines = grown.text.split("\n")
    assert [line[0] for line in lines] == ["0", "1", "2"]
    assert lines[1] == plain.text
    assert grown.metadata["line_start"] == 1
    assert grown.metadata["line_end"] == 5


async def test_a_hit_within_a_grown_one(bench: Bench) -> None:
    """A hit within an extended one is dropped, and the next one takes its place."""
    await filled(bench, Pieces(30, 0))
    question = "mark4 thing4 mark5 thing5"
    plain = (await bench.ask(question, top_k=5)).matches
    grown = (await bench.ask(question, top_k=5, neighbours=2)).matches
    spans = [(hit.metadata["start"], hit.metadata["end"]) for hit in grown]
    by_id = {hit.id: hit for hit in plain}
    for at, joined in enumerate(grown):
        hit = by_id.get(joined.id)
        for before, uri in zip(spans[:at], (m.metadata["uri"] for m in grown), strict=False):
            if hit is not None and uri == joined.metadata["uri"]:
                inside = before[0] <= hit.metadata["start"] and hit.metadata["end"] <= before[1]
                assert not inside
    assert len(grown) < len({hit.id for hit in [*plain, *grown]})
    assert grown[0].id == plain[0].id
    for count in range(1, 5):
        fewer = (await bench.ask(question, top_k=count, neighbours=2)).matches
        assert fewer == grown[:count]


async def test_the_same_place_in_two_knowledge_bases(bench: Bench) -> None:
    """Equal locations in files of the same name in two knowledge bases are different."""
    await filled(bench, Pieces(30, 0))
    first = bench.kb
    second = replace(first, id="more", namespace=Namespace("default", "test", "project", "more"))
    bench.kb = second
    bench.write("a.md", " ".join(f"sign{number} tells fact{number}." for number in range(12)))
    await bench.ingest()
    settings = RetrievalDeclaration(top_k=2, neighbours=5)
    result = await search([first, second], "mark5 thing5 sign5 fact5", settings)
    assert {hit.metadata["kb_id"] for hit in result} == {"docs", "more"}


async def test_a_document_that_is_replaced_while_it_is_reranked(bench: Bench) -> None:
    """A hit that no longer exists when its neighbors are read stays as it was found."""
    await filled(bench, Pieces(30, 0))

    class Slow:
        async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
            bench.write("a.md", "Everything was written again.")
            await bench.ingest()
            return [float("mark11" in text) for text in texts]

    bench.change(reranker=lambda declared: Slow())
    plain = (await bench.ask("mark11 thing11", top_k=50)).matches
    (hit,) = await bench.ask(
        "mark11 thing11", strategy="rerank", top_k=1, neighbours=1, rerank={"class": "a.b:C"}
    )
    (before,) = (match for match in plain if match.id == hit.id)
    assert "mark11" in hit.text
    assert (hit.text, hit.metadata) == (before.text, before.metadata)


@pytest.mark.parametrize("strategy", ["similarity", "lexical", "hybrid", "mmr"])
async def test_more_hits_fill_the_place_of_those_that_lie_within_others(
    bench: Bench, strategy: str
) -> None:
    """A smaller `top_k` returns the first passages of a larger one, with the same verdict."""
    await filled(bench, Pieces(30, 0))
    for number in range(0, 12, 3):
        question = f"mark{number} thing{number} says"
        query: dict[str, Any] = {"strategy": strategy, "neighbours": 1, "min_results": 3}
        most = await bench.ask(question, top_k=50, **query)
        assert len(most) >= 3
        for top_k in range(1, 8):
            fewer = await bench.ask(question, top_k=top_k, **query)
            assert fewer.matches == most.matches[:top_k]
            assert fewer.verdict == most.verdict
