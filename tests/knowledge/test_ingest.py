"""Ingestion is exact, accounts for every document, and guards against losses."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable

import pytest

from lorebind_config.errors import (
    IngestRefusedError,
    NotIngestedError,
    UsageError,
)
from lorebind_knowledge.chunking.recursive import RecursiveChunker
from lorebind_knowledge.ingest import progress
from lorebind_knowledge.sources.folder import files

from .bench import (
    Bench,
    CountingEmbedder,
    chunk_counts,
    counts,
    fill,
    fresh,
    paragraph,
    two_sources,
)

# Exact.


async def test_first_run(bench: Bench) -> None:
    """The first run adds every document and chunk, and embeds each text once."""
    fill(bench)
    report = await bench.ingest()
    assert (report.status, report.strategy, report.kb_id) == ("completed", "upsert", "docs")
    assert report.documents == counts(added=4)
    assert report.chunks == chunk_counts(added=12, total=12)
    assert (report.texts_embedded, report.cache_hits) == (12, 0)
    assert len(bench.embedder.texts) == 12
    assert len(await bench.visible()) == 12
    assert max(map(len, bench.embedder.batches)) == bench.embedder.batch_size


async def test_second_run(bench: Bench) -> None:
    """A run over unchanged files does nothing, and never calls the embedder."""
    fill(bench)
    await bench.ingest()
    before = await bench.visible()
    bench.embedder.forget()
    report = await bench.ingest()
    assert report.documents == counts(unchanged=4)
    assert report.chunks == chunk_counts(unchanged=12, total=12)
    assert (report.texts_embedded, report.cache_hits) == (0, 0)
    assert bench.embedder.batches == bench.embedder.questions == []
    assert await bench.visible() == before


@pytest.mark.parametrize("documents", [4, 200])
async def test_transactions_of_a_run_without_changes(
    bench: Bench, documents: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many documents are unchanged, a run lists and reads their rows, and writes none."""
    # However slow the machine is: progress is written besides, and new files get versions later.
    monkeypatch.setattr(progress, "SECONDS", 60.0)
    monkeypatch.setattr(files, "_YOUNG_NS", 0)
    fill(bench, documents)
    await bench.ingest()
    database = bench.catalog._database
    opened: list[str] = []
    reading, writing = database.reading, database.writing
    monkeypatch.setattr(database, "reading", lambda: [opened.append("reading"), reading()][1])
    monkeypatch.setattr(database, "writing", lambda: [opened.append("writing"), writing()][1])
    report = await bench.ingest()
    assert report.documents == counts(unchanged=documents)
    # Those that write take the lease, start the run, remove leftovers, end the run, and release it.
    # One read looks for a rollback; the last is the size of the embedding cache, a sum of a few
    # rows.
    assert Counter(opened) == {"reading": 11, "writing": 5}


async def test_one_paragraph(bench: Bench, make_bench: Callable[[str], Bench]) -> None:
    """Only the changed passage of an edited file is embedded, and the old one is removed."""
    fill(bench, 20)
    await bench.ingest()
    before = {match.id for match in await bench.visible()}
    bench.embedder.forget()
    bench.write("7.md", paragraph("word7a"), paragraph("new"), paragraph("word7c"))
    report = await bench.ingest()
    assert bench.embedder.texts == [f"7\n{paragraph('new')}"]
    assert report.documents == counts(updated=1, unchanged=19)
    assert report.chunks == chunk_counts(added=1, removed=1, unchanged=59, total=60)
    assert (report.texts_embedded, report.cache_hits) == (1, 2)
    after = await bench.visible()
    assert len({match.id for match in after} - before) == 1
    assert paragraph("word7b") not in [match.text for match in after]
    assert after == await fresh(bench, make_bench)


async def test_text_inserted_above(bench: Bench, make_bench: Callable[[str], Bench]) -> None:
    """Text that only moves down keeps its ids and gets its new position."""
    fill(bench)
    await bench.ingest()
    before = {match.id for match in await bench.visible()}
    bench.write("2.md", paragraph("top"), *(paragraph(f"word2{part}") for part in "abc"))
    report = await bench.ingest()
    assert report.texts_embedded == 1
    after = await bench.visible()
    assert before < {match.id for match in after}
    assert after == await fresh(bench, make_bench)


async def test_removed_file(bench: Bench) -> None:
    """The chunks of a removed file are removed, and no others."""
    fill(bench)
    await bench.ingest()
    bench.remove("1.md")
    bench.diary.entries.clear()
    report = await bench.ingest()
    assert report.documents == counts(removed=1, unchanged=3)
    assert report.chunks == chunk_counts(removed=3, unchanged=9, total=9)
    assert {match.metadata["uri"] for match in await bench.visible()} == {
        "docs/0.md",
        "docs/2.md",
        "docs/3.md",
    }
    assert bench.diary.data("document_deleted") == [{"uri": "docs/1.md"}]


async def test_many_removed_files(bench: Bench) -> None:
    """Files that are removed together become invisible in one step."""
    for number in range(9):
        bench.write(f"{number}.md", paragraph(f"text{number}"))
    await bench.ingest()
    before = bench.index.version(bench.corpus.kb.namespace)
    for number in range(4):
        bench.remove(f"{number}.md")
    report = await bench.ingest()
    assert (report.documents["removed"], report.chunks["removed"]) == (4, 4)
    after = bench.index.version(bench.corpus.kb.namespace)
    assert before
    assert after
    assert after.number == before.number + 1
    assert len(bench.diary.data("document_deleted")) == 4


async def test_moved_file(bench: Bench, make_bench: Callable[[str], Bench]) -> None:
    """A file that moves to another folder with the same title is not embedded again."""
    fill(bench)
    bench.write("old.md", "# Its title", paragraph("moving"))
    await bench.ingest()
    bench.embedder.forget()
    bench.write("keep.md", paragraph("keep"))
    bench.move("old.md", "deep/new.md")
    report = await bench.ingest()
    assert report.documents == counts(added=2, removed=1, unchanged=4)
    assert bench.embedder.texts == [f"keep\n{paragraph('keep')}"]
    assert await bench.visible() == await fresh(bench, make_bench)


async def test_duplicate_texts(bench: Bench, make_bench: Callable[[str], Bench]) -> None:
    """Equal texts are embedded once and stored separately, distinct by document and ordinal."""
    title = "---\ntitle: Same\n---"
    same = (title, paragraph("twice"), paragraph("twice"), paragraph("once"))
    bench.write("a.md", *same)
    bench.write("b.md", *same)
    report = await bench.ingest()
    visible = await bench.visible()
    assert len(visible) == report.chunks["total"] == len({match.id for match in visible})
    assert Counter(match.text for match in visible)[paragraph("twice")] == 4
    assert len(bench.embedder.texts) == len(set(bench.embedder.texts)) == report.texts_embedded
    bench.write("a.md", title, paragraph("twice"), paragraph("once"))
    report = await bench.ingest()
    assert report.texts_embedded == 0
    assert report.chunks["removed"] == 1
    assert await bench.visible() == await fresh(bench, make_bench)


async def test_metadata_alone(bench: Bench, make_bench: Callable[[str], Bench]) -> None:
    """New metadata of the knowledge base reaches every chunk without embedding anything."""
    fill(bench)
    await bench.ingest()
    bench.change(metadata={"tags": ["guide"], "level": 2})
    bench.embedder.forget()
    report = await bench.ingest()
    assert report.documents == counts(updated=4)
    assert report.chunks == chunk_counts(unchanged=12, total=12)
    assert (report.texts_embedded, report.cache_hits) == (0, 12)
    assert bench.embedder.batches == []
    visible = await bench.visible()
    assert all(match.metadata["tags"] == ["guide"] for match in visible)
    assert visible == await fresh(bench, make_bench)
    assert len((await bench.ask("word1a", filters={"level": 3})).matches) == 0
    assert (await bench.ingest()).documents == counts(unchanged=4)


async def test_chunk_size(bench: Bench, make_bench: Callable[[str], Bench]) -> None:
    """Another chunk size chunks everything again, and leaves no old chunks."""
    fill(bench)
    await bench.ingest()
    bench.change(chunker=RecursiveChunker(200, 0))
    report = await bench.ingest()
    assert report.documents == counts(updated=4)
    assert report.chunks == chunk_counts(added=4, removed=12, total=4)
    assert await bench.visible() == await fresh(bench, make_bench)
    bench.change(chunker=RecursiveChunker(64, 0))
    assert (await bench.ingest()).texts_embedded == 0


async def test_what_a_match_tells(bench: Bench) -> None:
    """A match has its knowledge base, uri, title, headings and the exact position of its text."""
    text = f"---\ntitle: Guide\n---\n# One\n\n## Two\n\n{paragraph('target')}\n"
    bench.write("a.md", text)
    await bench.ingest()
    (match,) = (await bench.ask("target", top_k=1)).matches
    metadata = match.metadata
    assert text[metadata["start"] : metadata["end"]] == match.text
    assert match.text == paragraph("target")
    assert {key: metadata[key] for key in ("kb_id", "uri", "title", "heading")} == {
        "kb_id": "docs",
        "uri": "docs/a.md",
        "title": "Guide",
        "heading": "One > Two",
    }
    assert (metadata["line_start"], metadata["line_end"]) == (8, 8)
    assert f"Guide > One > Two\n{match.text}" in bench.embedder.texts


# Accountable.


async def test_one_bad_file(bench: Bench) -> None:
    """An unreadable file fails alone and is tried again; its old version is still found."""
    fill(bench)
    await bench.ingest()
    before = await bench.visible()
    bench.write_bytes("2.md", b"caf\0\xe9")
    bench.write("3.md", paragraph("edited"))
    for attempt in (1, 2):
        report = await bench.ingest()
        assert report.status == "completed_with_failures"
        assert report.documents["failed"] == 1
        (failure,) = report.failures
        assert (failure.uri, failure.attempts) == ("docs/2.md", attempt)
        assert "looks like a binary file" in failure.reason
        entry = bench.catalog.ledger.documents(bench.entry.key)["docs/2.md"]
        assert (entry.state, entry.reason, entry.attempts) == ("failed", failure.reason, attempt)
        assert report.chunks["total"] == len(await bench.visible()) == 10
    served = [match for match in await bench.visible() if match.metadata["uri"] == "docs/2.md"]
    assert served == [match for match in before if match.metadata["uri"] == "docs/2.md"]
    bench.write("2.md", paragraph("mended"))
    report = await bench.ingest()
    assert (report.status, report.documents) == ("completed", counts(updated=1, unchanged=3))
    entry = bench.catalog.ledger.documents(bench.entry.key)["docs/2.md"]
    assert (entry.state, entry.reason, entry.attempts) == ("ready", "", 0)
    assert paragraph("mended") in await bench.texts()
    assert len(await bench.visible()) == 8


async def test_a_bad_file_that_was_never_good(bench: Bench) -> None:
    """A document that has always failed has no chunks, and is removed with its file."""
    fill(bench)
    bench.write_bytes("bad.md", b"\0\xff")
    report = await bench.ingest()
    assert report.documents == counts(added=4, failed=1)
    bench.remove("bad.md")
    report = await bench.ingest()
    assert (report.status, report.documents) == ("completed", counts(removed=1, unchanged=4))
    assert report.chunks["removed"] == 0


async def test_a_bad_file_restored(bench: Bench) -> None:
    """A file that failed and was then restored is not embedded again."""
    fill(bench)
    await bench.ingest()
    before = await bench.visible()
    good = (bench.root / "docs" / "2.md").read_bytes()
    bench.write_bytes("2.md", b"\0\xff")
    await bench.ingest()
    bench.write_bytes("2.md", good)
    report = await bench.ingest()
    assert (report.status, report.texts_embedded) == ("completed", 0)
    assert bench.catalog.ledger.documents(bench.entry.key)["docs/2.md"].state == "ready"
    assert await bench.visible() == before


async def test_empty_files(bench: Bench) -> None:
    """An empty file is a document without chunks; a file that becomes empty loses its chunks."""
    fill(bench)
    bench.write("empty.md", "")
    bench.write("blank.md", " \n\n\t")
    report = await bench.ingest()
    assert (report.status, report.documents) == ("completed", counts(added=6))
    bench.write("2.md", "")
    report = await bench.ingest()
    assert report.documents == counts(updated=1, unchanged=5)
    assert report.chunks == chunk_counts(removed=3, unchanged=9, total=9)
    assert len(await bench.visible()) == 9
    assert (await bench.ingest()).documents == counts(unchanged=6)


async def test_front_matter_cannot_break_a_run(bench: Bench) -> None:
    """A file whose front matter makes the YAML parser fail is text, and the run continues."""
    fill(bench)
    bench.write_bytes("odd.md", b"---\na: !!bool maybe\n---\nbody")
    bench.write_bytes("deep.md", b"---\na: " + b"[" * 1200 + b"\n---\nbody")
    assert (await bench.ingest()).status == "completed"


# Guarded.


async def test_a_failing_source_deletes_nothing(bench: Bench) -> None:
    """Documents of a source that suddenly lists nothing stay, and the status reports it."""
    fill(bench, 8)
    (bench.root / "more").mkdir()
    (bench.root / "more" / "x.md").write_text(paragraph("more"))
    two_sources(bench)
    report = await bench.ingest()
    assert [(source.status, source.documents) for source in report.sources] == [
        ("ok", 8),
        ("ok", 1),
    ]
    (bench.root / "more" / "x.md").unlink()
    bench.remove("0.md")
    report = await bench.ingest()
    assert report.status == "completed_with_failures"
    assert report.documents["removed"] == 1
    assert [source.status for source in report.sources] == ["ok", "failed"]
    assert "no file" in report.sources[1].reason
    assert paragraph("more") in await bench.texts()


async def test_a_mistyped_pattern_deletes_nothing(bench: Bench) -> None:
    """A changed source that lists nothing does not remove the documents of the former one."""
    fill(bench, 8)
    (bench.root / "more").mkdir()
    (bench.root / "more" / "x.md").write_text(paragraph("more"))
    two_sources(bench)
    await bench.ingest()
    two_sources(bench, "mroe/*.md")
    report = await bench.ingest()
    assert (report.status, report.documents) == ("completed_with_failures", counts(unchanged=8))
    assert paragraph("more") in await bench.texts()
    two_sources(bench, "more/**/*.md")
    assert (await bench.ingest()).documents == counts(unchanged=9)


async def test_a_source_that_is_no_longer_declared(bench: Bench) -> None:
    """The documents of a source that is no longer declared are removed."""
    fill(bench, 8)
    (bench.root / "more").mkdir()
    (bench.root / "more" / "x.md").write_text(paragraph("more"))
    two_sources(bench)
    await bench.ingest()
    bench.change(sources=bench.corpus.sources[:1])
    assert (await bench.ingest()).documents == counts(removed=1, unchanged=8)


async def test_all_sources_failing(bench: Bench) -> None:
    """If no source can be read, the run has failed, and all documents are still found."""
    fill(bench)
    await bench.ingest()
    shutil.rmtree(bench.root / "docs")
    report = await bench.ingest()
    assert (report.status, report.documents) == ("failed", counts())
    assert len(await bench.visible()) == 12


async def test_a_first_run_that_fails_serves_nothing(bench: Bench) -> None:
    """Before the first document is ingested, a question is an error instead of finding nothing."""
    assert (await bench.ingest()).status == "failed"
    with pytest.raises(NotIngestedError, match="run: lorebind knowledge ingest docs"):
        await bench.ask("anything")
    fill(bench)
    assert (await bench.ingest()).status == "completed"
    assert len(await bench.ask("one")) > 0


@pytest.mark.parametrize("strategy", ["upsert", "replace"])
async def test_mass_delete(bench: Bench, strategy: str) -> None:
    """More than half of the documents are removed only if allowed; half is always allowed."""
    fill(bench, 8)
    await bench.ingest()
    for number in range(5):
        bench.remove(f"{number}.md")
    before, rows = await bench.visible(), bench.catalog.ledger.documents(bench.entry.key)
    with pytest.raises(IngestRefusedError, match=r"5 of 8 documents.*--allow-mass-delete"):
        await bench.ingest(strategy=strategy)
    assert await bench.visible() == before
    assert bench.catalog.ledger.documents(bench.entry.key) == rows
    assert bench.catalog.ledger.index(bench.kb.namespace, "building") is None
    assert bench.diary.names()[-1] == "ingest_failed"
    await bench.ingest(strategy=strategy, allow_mass_delete=True)
    assert len(await bench.visible()) == 9
    bench.write("0.md", paragraph("back"))
    await bench.ingest()
    for number in (0, 5):
        bench.remove(f"{number}.md")
    await bench.ingest(strategy=strategy)
    assert len(await bench.visible()) == 6


async def test_documents_that_never_were_do_not_count(bench: Bench) -> None:
    """Files that could never be read may all be removed, because no served document is."""
    fill(bench, 1)
    for name in ("x.md", "y.md"):
        bench.write_bytes(name, b"\0\xff")
    assert (await bench.ingest()).documents == counts(added=1, failed=2)
    for name in ("x.md", "y.md"):
        bench.remove(name)
    assert (await bench.ingest()).documents == counts(removed=2, unchanged=1)


async def test_unknown_strategy(bench: Bench) -> None:
    """An unknown strategy is refused with the nearest known one."""
    with pytest.raises(UsageError, match="did you mean 'replace'"):
        await bench.ingest(strategy="replcae")


# The store has no more than the index.


async def test_generations_do_not_pile_up(bench: Bench) -> None:
    """After every edit, the store holds the vectors of one generation of each document."""
    fill(bench)
    for version in range(5):
        bench.write("1.md", paragraph(f"version{version}"))
        await bench.ingest()
        assert bench.index.store.count(bench.entry.space) == len(await bench.visible()) == 10


# Only what failed.


async def test_only_failed_reads_nothing_else(bench: Bench) -> None:
    """Failed documents are tried again; changed, new and removed ones are skipped."""
    fill(bench)
    bench.write_bytes("2.md", b"caf\0\xe9")
    await bench.ingest()
    bench.write("2.md", paragraph("mended"))
    bench.write("1.md", paragraph("edited"))
    bench.write("new.md", paragraph("new"))
    bench.remove("0.md")
    bench.embedder.forget()
    report = await bench.ingest(only_failed=True)
    assert (report.status, report.documents) == ("completed", counts(added=1))
    assert len(bench.embedder.texts) == 1
    assert paragraph("mended") in await bench.texts()
    assert paragraph("edited") not in await bench.texts()
    assert (await bench.ingest()).documents == counts(added=1, updated=1, removed=1, unchanged=2)


async def test_only_failed_goes_with_upsert(bench: Bench) -> None:
    """`only_failed` is refused for a rebuild, which reads everything."""
    with pytest.raises(UsageError, match="only_failed needs the strategy 'upsert'"):
        await bench.ingest(strategy="replace", only_failed=True)


async def test_only_failed_builds_no_index(bench: Bench) -> None:
    """If the index is missing or from another embedder, `only_failed` does not create one."""
    fill(bench)
    with pytest.raises(IngestRefusedError, match="does not exist yet"):
        await bench.ingest(only_failed=True)
    await bench.ingest()
    before = bench.entry
    bench.change(embedder=CountingEmbedder(revision="2"))
    with pytest.raises(IngestRefusedError, match="was built with another embedder"):
        await bench.ingest(only_failed=True)
    assert bench.entry == before
    assert (await bench.ingest()).documents == counts(added=4)
