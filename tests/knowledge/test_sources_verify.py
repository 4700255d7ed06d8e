"""Which files an ingest reads again: `verify: stat` and `verify: content`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lorebind_knowledge.chunking.recursive import RecursiveChunker
from lorebind_knowledge.sources.folder import files
from lorebind_knowledge.sources.folder.files import FileSource

from .bench import Bench, counts, fill, paragraph


class Reads:
    """The files that were read since the last call."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def __call__(self) -> list[str]:
        paths, self.paths = self.paths, []
        return sorted(paths)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    reads, real = Reads(), files.open_inside

    def opened(folder: str, path: str) -> object:
        reads.paths.append(path)
        return real(folder, path)

    monkeypatch.setattr(files, "open_inside", opened)
    return reads


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files count as old at once."""
    monkeypatch.setattr(files, "_YOUNG_NS", 0)


def change_quietly(path: Path, change: Callable[[], object]) -> None:
    """Change a file until the time of its change differs, and set its modification time back."""
    before = path.stat()
    while path.stat().st_ctime_ns == before.st_ctime_ns:
        change()
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


@pytest.mark.usefixtures("old")
async def test_unchanged_files(bench: Bench, reads: Reads) -> None:
    """They are not read, also after a plan, except for a new index."""
    fill(bench, 3)
    everything = ["docs/0.md", "docs/1.md", "docs/2.md"]
    await bench.ingest()
    assert reads() == everything
    plan = await bench.plan()
    assert plan.documents == counts(unchanged=3)
    assert (await bench.ingest(plan=plan)).documents == counts(unchanged=3)
    assert reads() == []
    report = await bench.ingest(strategy="replace")
    assert report.documents == counts(added=3)
    assert reads() == everything


@pytest.mark.usefixtures("old")
async def test_touched_files(bench: Bench, reads: Reads) -> None:
    """A file with a new time and the same bytes is read once and then known."""
    fill(bench, 2)
    await bench.ingest()
    os.utime(bench.root / "docs" / "0.md", ns=(1, 1))
    reads()
    assert (await bench.ingest()).documents == counts(unchanged=2)
    assert reads() == ["docs/0.md"]
    assert (await bench.ingest()).documents == counts(unchanged=2)
    assert reads() == []


@pytest.mark.usefixtures("old")
@pytest.mark.parametrize("way", ["written", "replaced"])
async def test_an_edit_that_keeps_size_and_modification_time(bench: Bench, way: str) -> None:
    """The edit is seen, by the time of change and the inode."""
    bench.write("a.md", paragraph("before"))
    await bench.ingest()
    path = bench.root / "docs" / "a.md"
    text = path.read_text().replace("before", "behind")

    def change() -> None:
        if way == "written":
            path.write_text(text)
        else:
            path.with_suffix(".new").write_text(text)
            path.with_suffix(".new").replace(path)

    change_quietly(path, change)
    assert (await bench.ingest()).documents == counts(updated=1)
    assert "behind" in (await bench.visible())[0].text


async def test_young_files(bench: Bench, reads: Reads) -> None:
    """A file that was modified just before it was read may change again unseen, so it is read."""
    fill(bench, 2)
    await bench.ingest()
    reads()
    assert (await bench.ingest()).documents == counts(unchanged=2)
    assert reads() == ["docs/0.md", "docs/1.md"]


@pytest.mark.usefixtures("old")
async def test_content(bench: Bench, reads: Reads) -> None:
    """With `content`, every file is read; a later `stat` reads them once more."""
    fill(bench, 2)
    (source,) = bench.corpus.sources
    assert isinstance(source, FileSource)
    bench.change(sources=[replace(source, verify="content")])
    for _ in range(2):
        await bench.ingest()
        assert reads() == ["docs/0.md", "docs/1.md"]
    bench.change(sources=[source])
    await bench.ingest()
    assert reads() == ["docs/0.md", "docs/1.md"]
    await bench.ingest()
    assert reads() == []


@pytest.mark.usefixtures("old")
async def test_settings_that_need_another_read(bench: Bench, reads: Reads) -> None:
    """Unchanged files are read after a change of chunking, `as_text` or `max_bytes`."""
    fill(bench, 1)
    await bench.ingest()
    bench.change(chunker=RecursiveChunker(96, 0))
    await bench.ingest()
    (source,) = bench.corpus.sources
    assert isinstance(source, FileSource)
    bench.change(sources=[replace(source, as_text=["**/*.md"])])
    await bench.ingest()
    assert reads() == ["docs/0.md"] * 3
    bench.change(sources=[replace(source, max_bytes=9)])
    assert (await bench.ingest()).documents == counts(failed=1)


@pytest.mark.usefixtures("old")
async def test_files_behind_links(bench: Bench, tmp_path: Path, reads: Reads) -> None:
    """A link is followed in every run, and refused when it leads out of the project."""
    bench.write("a.md", paragraph("inside"))
    (tmp_path / "secret.md").write_text(paragraph("secret"))
    link = bench.root / "docs" / "b.md"
    link.symlink_to("a.md")
    assert (await bench.ingest()).documents == counts(added=2)
    reads()
    assert (await bench.ingest()).documents == counts(unchanged=2)
    assert reads() == ["docs/b.md"]
    link.unlink()
    link.symlink_to(tmp_path / "secret.md")
    assert (await bench.ingest()).documents == counts(unchanged=1, failed=1)
