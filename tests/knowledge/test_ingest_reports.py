"""Reports, events and plans of an ingest, and reads during one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

import pytest

from lorebind_config.declarations.sources import SourceBase
from lorebind_config.errors import EmbedderError, UsageError
from lorebind_knowledge.chunking.recursive import RecursiveChunker
from lorebind_knowledge.documents.listing import list_documents
from lorebind_knowledge.embedders.base import TokenCount, counted
from lorebind_knowledge.ingest.report import IngestReport

from .bench import Bench, CountingEmbedder, counts, fail_at, fill, paragraph
from .documents import pdf_bytes, pptx_bytes

# Reports, events and plans.


async def test_the_shape_of_a_report(bench: Bench) -> None:
    """A report has the fields that other programs rely on, and JSON can represent it."""
    fill(bench)
    bench.write_bytes("bad.md", b"\0\xff")
    report = await bench.ingest()
    assert {field.name for field in fields(IngestReport)} >= {
        *("kb_id", "strategy", "run_id", "status", "documents", "chunks", "texts_embedded"),
        *("cache_hits", "seconds", "failures", "sources"),
    }
    data = asdict(report)
    assert set(data["documents"]) == {"added", "updated", "removed", "unchanged", "failed"}
    assert set(data["chunks"]) == {"added", "removed", "unchanged", "total"}
    assert set(data["failures"][0]) == {"uri", "reason", "attempts"}
    assert data["seconds"] > 0
    (run,) = bench.catalog.runs.list(bench.kb.namespace, 1)
    assert (run.run_id, run.status) == (report.run_id, report.status)


async def test_events(bench: Bench) -> None:
    """The events of a run come in order, and their counts add up to the report's."""
    bench.diary.content = True
    fill(bench, 6)
    await bench.ingest()
    bench.diary.entries.clear()
    bench.write("1.md", paragraph("x"), paragraph("y"))
    bench.write("new.md", paragraph("z"))
    bench.write_bytes("bad.md", b"\0\xff")
    bench.remove("5.md")
    report = await bench.ingest()
    names = bench.diary.names()
    assert (names[0], names[-1]) == ("ingest_started", "ingest_completed")
    assert "collection_created" not in names
    assert {event.run_id for _, event in bench.diary.entries} == {report.run_id}
    chunked = bench.diary.data("ingest_chunked")
    actions = Counter(data["action"] for data in chunked)
    assert actions == {"updated": 1, "added": 1, "failed": 1, "unchanged": 4}
    embedded = bench.diary.data("ingest_embedded")
    assert sum(data["chunks"] for data in chunked) == sum(data["chunks"] for data in embedded) == 3
    assert sum(data["texts_embedded"] for data in embedded) == report.texts_embedded
    assert sum(data["cache_hits"] for data in embedded) == report.cache_hits
    assert names.count("document_deleted") == report.documents["removed"] == 1
    assert names.index("document_deleted") > max(
        place for place, name in enumerate(names) if name == "ingest_embedded"
    )
    assert bench.diary.data("ingest_completed") == [{"report": report}]


def snapshot(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


async def test_plan_of_a_new_project(bench: Bench) -> None:
    """A plan before the first ingest creates no file and never calls the embedder."""
    fill(bench)
    before = snapshot(bench.root)
    planned = await bench.plan()
    assert snapshot(bench.root) == before
    assert not (bench.root / ".lorebind").exists()
    assert bench.embedder.batches == bench.embedder.questions == bench.diary.entries == []
    assert planned.documents == counts(added=4)
    assert (planned.texts_to_embed, planned.cache_hits) == (12, 0)


async def test_the_tokens_of_a_plan(bench: Bench) -> None:
    """A plan counts the tokens of texts to embed, each once, and their cost."""
    fill(bench, 3)
    await bench.ingest()
    bench.embedder.forget()
    bench.write("0.md", paragraph("new"), paragraph("word0b"))
    bench.write("copy.md", "# Copy", paragraph("same"))
    bench.write("copy2.md", "# Copy", paragraph("same"))
    assert (await bench.plan()).cost is None
    bench.change(token_price=2_000_000)
    planned = await bench.plan()
    await bench.ingest()
    expected = bench.embedder.count_tokens(bench.embedder.texts)
    assert planned.tokens_to_embed == expected.tokens > 0
    assert (planned.tokenizer, planned.exact) == (expected.tokenizer, expected.exact)
    assert planned.cost == 2 * expected.tokens
    nothing = await bench.plan()
    assert (nothing.tokens_to_embed, nothing.cost, nothing.tokenizer) == (0, 0, "len/4")


async def test_a_plan_by_the_models_own_tokens(bench: Bench) -> None:
    """If the embedder counts exactly, the plan reports it and names the encoding."""

    class Exact(CountingEmbedder):
        def count_tokens(self, texts: Sequence[str]) -> TokenCount:
            return counted(texts)

    fill(bench, 1)
    bench.embedder = Exact()
    bench.change(embedder=bench.embedder)
    planned = await bench.plan()
    await bench.ingest()
    assert planned.tokens_to_embed == counted(bench.embedder.texts).tokens
    assert (planned.tokenizer, planned.exact) == ("cl100k_base", True)


async def test_the_plan_of_a_new_index(bench: Bench) -> None:
    """A plan for `replace` counts what it would do, including an unfinished successor."""
    fill(bench, 6)
    await bench.ingest()
    bench.write("1.md", paragraph("changed"))
    with pytest.raises(UsageError, match="unknown ingest strategy 'replac'"):
        await bench.plan(strategy="replac")

    async def compare(added: int, new: int) -> None:
        planned = await bench.plan(strategy="replace")
        assert (planned.documents["added"], planned.texts_to_embed) == (added, new)
        report = await bench.ingest(strategy="replace")
        assert (planned.documents, planned.chunks) == (report.documents, report.chunks)
        assert planned.texts_to_embed == report.texts_embedded
        assert planned.cache_hits == report.cache_hits

    await compare(added=6, new=1)
    await compare(added=6, new=0)


async def test_the_plan_comes_true(bench: Bench) -> None:
    """Every count of a plan equals that of the ingest that follows."""
    fill(bench, 8)
    await bench.ingest()

    async def compare() -> None:
        before = await bench.visible()
        planned = await bench.plan()
        assert await bench.visible() == before
        report = await bench.ingest()
        assert planned.documents == report.documents
        assert planned.chunks == report.chunks
        assert planned.texts_to_embed == report.texts_embedded
        assert planned.cache_hits == report.cache_hits
        assert planned.failures == report.failures
        assert planned.sources == report.sources

    bench.write("1.md", paragraph("x"), paragraph("x"), paragraph("word1c"))
    bench.write("same.md", "# Same", paragraph("copy"))
    bench.write("same2.md", "# Same", paragraph("copy"))
    bench.write_bytes("2.md", b"\0\xff")
    bench.write("3.md", "")
    bench.remove("4.md")
    bench.move("5.md", "moved/5.md")
    await compare()
    await compare()
    bench.change(metadata={"a": 1})
    await compare()
    bench.change(chunker=RecursiveChunker(200, 0))
    await compare()


async def test_documents_without_text(bench: Bench) -> None:
    """Every plan and report names the documents without text, also when they are unchanged."""
    fill(bench, 1)
    bench.write("empty.md", "")
    bench.write("front.md", "---\ntags: [a]\n---\n")
    bench.write_bytes("bad.md", b"\0\xff")
    empty = ["docs/empty.md", "docs/front.md"]
    assert (await bench.plan()).without_text == empty
    for strategy in ("upsert", "upsert", "replace"):
        assert (await bench.ingest(strategy=strategy)).without_text == empty
    assert (await bench.plan()).without_text == empty
    assert (await bench.ingest(only_failed=True)).without_text == []
    bench.write("empty.md", paragraph("x"))
    bench.write_bytes("front.md", b"\0\xff")
    assert (await bench.plan()).without_text == (await bench.ingest()).without_text == []


@pytest.mark.usefixtures("without_ocr")
async def test_pages_without_text(bench: Bench) -> None:
    """Every plan and report counts the pages without text, also of unchanged documents."""
    fill(bench, 1)
    bench.write_bytes("full.md", pdf_bytes(["Keys", "Doors"]))
    bench.write_bytes("scan.md", pdf_bytes(["", "Keys", "", ""]))
    counts = {"docs/scan.md": 3}
    assert (await bench.plan()).textless_pages == counts
    for strategy in ("upsert", "upsert", "replace"):
        assert (await bench.ingest(strategy=strategy)).textless_pages == counts
    assert (await bench.plan()).textless_pages == counts
    bench.write_bytes("scan.md", pdf_bytes(["Keys", ""]))
    assert (await bench.ingest()).textless_pages == {"docs/scan.md": 1}
    bench.write_bytes("scan.md", b"%PDF-1.4")
    assert (await bench.ingest()).textless_pages == {}
    bench.write_bytes("scan.md", pdf_bytes(["Keys"]))
    assert (await bench.ingest()).textless_pages == (await bench.plan()).textless_pages == {}


@pytest.mark.usefixtures("without_ocr")
async def test_parts_without_text(bench: Bench) -> None:
    """A source decides about parts without text; a change of mind needs no other setting."""

    def declare(policy: str) -> None:
        (source,) = bench.corpus.sources
        settings = SourceBase.model_validate({"on_textless_pages": policy})
        bench.change(declared={source.key: settings})

    bench.write_bytes("part.md", pdf_bytes(["Keys", "", "", "Doors", ""]))
    bench.write_bytes("scan.md", pdf_bytes(["", ""]))
    bench.write_bytes("slides.md", pptx_bytes(("Keys", ""), ("", "")))
    parts = {"docs/part.md": {"page": 3}, "docs/slides.md": {"slide": 1}}
    report = await bench.ingest()
    assert report.textless_parts == parts
    (failure,) = report.failures
    assert "docs/scan.md: none of its 2 pages has text; rec" in failure.reason
    read = {data["uri"]: data["textless_parts"] for data in bench.diary.data("ingest_chunked")}
    assert read == {**parts, "docs/scan.md": {}}

    declare("ignore")
    for _ in range(2):
        report = await bench.ingest()
        assert (report.textless_parts, report.textless_pages, report.failures) == ({}, {}, [])
    parts["docs/scan.md"] = {"page": 2}
    documents = list_documents(bench.kb.namespace, bench.catalog)
    assert {document.uri: document.textless_parts for document in documents} == parts
    assert [document.textless_pages for document in documents] == [3, 2, 0]

    declare("fail")
    reasons = {failure.uri: failure.reason for failure in (await bench.ingest()).failures}
    assert reasons.keys() == parts.keys()
    assert "part.md: without text: 3 pages (pages 2-3, 5); rec" in reasons["docs/part.md"]
    assert "slides.md: without text: 1 slide; " in reasons["docs/slides.md"]

    for policy, failed in (("warn", ["docs/scan.md"]), ("ignore", []), ("warn", ["docs/scan.md"])):
        declare(policy)
        report = await bench.ingest()
        assert [failure.uri for failure in report.failures] == failed
    assert report.textless_parts.keys() == {"docs/part.md", "docs/slides.md"}


async def test_the_plan_of_an_interrupted_rebuild(bench: Bench) -> None:
    """A plan counts the finished part of a rebuild for a new embedder."""
    fill(bench, 6)
    await bench.ingest()
    bench.embedder = CountingEmbedder(revision="2")
    bench.change(embedder=bench.embedder)

    bench.embedder.before_batch = fail_at(4)
    with pytest.raises(EmbedderError):
        await bench.ingest()
    bench.embedder.before_batch = lambda number: None
    planned = await bench.plan()
    report = await bench.ingest()
    assert (planned.documents, planned.chunks) == (report.documents, report.chunks)
    assert planned.texts_to_embed == report.texts_embedded == 18 - 12
