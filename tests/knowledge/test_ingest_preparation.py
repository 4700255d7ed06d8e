"""How documents are read and chunked on their way into an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.chunking.recursive import RecursiveChunker
from lorebind_knowledge.ingest.enumeration import enumerate_sources
from lorebind_knowledge.ingest.preparation import prepare_documents

from .bench import Bench, fill

if TYPE_CHECKING:
    from collections.abc import Callable


async def groups(bench: Bench, at_once: int) -> list[list[str]]:
    enumeration = enumerate_sources(bench.corpus.sources)
    return [
        [document.uri for document in documents]
        async for documents in prepare_documents(bench.corpus, enumeration, {}, at_once)
    ]


async def test_groups(make_bench: Callable[[str], Bench]) -> None:
    """Documents come in the order listed, so many at a time."""
    bench = make_bench("memory")
    fill(bench, 5)
    assert await groups(bench, 2) == [
        ["docs/0.md", "docs/1.md"],
        ["docs/2.md", "docs/3.md"],
        ["docs/4.md"],
    ]


async def test_long_documents_come_few_at_a_time(make_bench: Callable[[str], Bench]) -> None:
    """However many may come at once, what is held of them does not grow with their length."""
    bench = make_bench("memory")
    bench.change(chunker=RecursiveChunker(8192, 0))
    for number in range(6):
        bench.write(f"{number}.md", *(["some words " * 50] * (2_000 if number < 5 else 1)))
    assert [len(group) for group in await groups(bench, 64)] == [2, 2, 2]
