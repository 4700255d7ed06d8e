"""Reading and chunking documents during an ingest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lorebind_knowledge.chunking.base import Chunker
from lorebind_knowledge.chunking.recursive import RecursiveChunker
from lorebind_knowledge.ingest.corpus import enumerate_sources
from lorebind_knowledge.ingest.preparation import prepare_documents
from lorebind_knowledge.loaders import registry
from lorebind_knowledge.sources.folder.files import FileSource

from .bench import Bench, counts, fill


async def groups(bench: Bench, at_once: int) -> list[list[str]]:
    enumeration = enumerate_sources(bench.corpus.sources)
    return [
        [document.uri for document in documents]
        async for documents in prepare_documents(bench.corpus, enumeration, {}, at_once)
    ]


async def test_groups(make_bench: Callable[[str], Bench]) -> None:
    """Documents are prepared in the listed order, in groups."""
    bench = make_bench("memory")
    fill(bench, 5)
    assert await groups(bench, 2) == [
        ["docs/0.md", "docs/1.md"],
        ["docs/2.md", "docs/3.md"],
        ["docs/4.md"],
    ]


async def test_long_documents_come_few_at_a_time(make_bench: Callable[[str], Bench]) -> None:
    """Groups of long documents are small, which limits the memory in use."""
    bench = make_bench("memory")
    bench.change(chunker=RecursiveChunker(8192, 0))
    for number in range(6):
        bench.write(f"{number}.md", *(["some words " * 50] * (2_000 if number < 5 else 1)))
    assert [len(group) for group in await groups(bench, 64)] == [2, 2, 2]


class _AsProse(RecursiveChunker):
    def for_language(self, language: str) -> Chunker:
        return self


async def test_only_source_code_is_cut_by_its_language(make_bench: Callable[[str], Bench]) -> None:
    """When chunking by syntax is introduced for code, other documents are not read again."""
    bench = make_bench("memory")
    bench.write("a.md", "# Keys", "Rotate them.")
    bench.write("a.py", "def first(): ...", "def second():\n    return 2\n" * 4)
    bench.change(chunker=_AsProse(64, 0), sources=[FileSource("file_glob", ["docs/*"], bench.root)])
    await bench.ingest()
    as_prose = await bench.texts()
    bench.change(chunker=RecursiveChunker(64, 0))
    report = await bench.ingest()
    assert report.documents == counts(updated=1, unchanged=1)
    assert await bench.texts() != as_prose
    assert (await bench.ingest()).documents == counts(unchanged=2)


async def test_only_formats_that_changed_are_read_again(
    make_bench: Callable[[str], Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the loader of one format changes, documents of other formats are not read again."""
    bench = make_bench("memory")
    bench.write("a.md", "# Keys", "Rotate them.")
    bench.write("a.rst", "Keys\n====", "Rotate them.")
    bench.change(sources=[FileSource("file_glob", ["docs/*"], bench.root)])
    await bench.ingest()
    monkeypatch.setattr(registry, "_NEWER", {".rst": "headings"})
    assert (await bench.ingest()).documents == counts(updated=1, unchanged=1)
