"""Which files are found below a folder, and what is skipped for which reason."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.ingest.enumeration import enumerate_sources
from lorebind_knowledge.ingest.report import Skipped, skipped_summary
from lorebind_knowledge.sources.files import FileSource
from lorebind_knowledge.sources.folder import files_below
from lorebind_knowledge.sources.markdown_glob import MarkdownGlobSource

from .folders import read, skipped, write


def test_endings_in_any_case(tmp_path: Path) -> None:
    """Extensions match in upper and lower case, in patterns and in excluded ones."""
    write(tmp_path, "a.md", "b.MD", "c.Md", "d.txt", "E.md.bak", "UP/f.md")
    assert read(tmp_path, "**/*.md") == ["UP/f.md", "a.md", "b.MD", "c.Md"]
    assert read(tmp_path, "*.{MD,TXT}") == ["a.md", "b.MD", "c.Md", "d.txt"]
    assert read(tmp_path, "up/*.md") == []
    assert read(tmp_path, "a.MD") == ["a.md"]
    assert files_below(tmp_path, ["*.md"], exclude=["*.MD"]).found == []


def test_a_folder_means_what_is_below_it(tmp_path: Path) -> None:
    """A pattern that names a folder lists its files; for markdown_glob, only Markdown files."""
    write(tmp_path, "kb/hand book/a.md", "kb/hand book/x/b.MDX", "kb/hand book/c.txt", "d.md")
    every = ["kb/hand book/a.md", "kb/hand book/c.txt", "kb/hand book/x/b.MDX"]
    for pattern in ("kb/hand book", "kb/hand book/", "./kb//hand book", "kb/hand\\ book"):
        assert read(tmp_path, pattern) == every
    markdown = read(tmp_path, "kb", in_folder=MarkdownGlobSource.in_folder)
    assert markdown == ["kb/hand book/a.md", "kb/hand book/x/b.MDX"]
    assert read(tmp_path, ".") == ["d.md", *every]


def test_a_folder_behind_a_wildcard(tmp_path: Path) -> None:
    """Only a pattern without wildcards can name a folder; others match files."""
    write(tmp_path, "a/notes/b.md", "c/notes")
    assert read(tmp_path, "**/notes") == read(tmp_path, "*/notes") == ["c/notes"]
    source = FileSource("file_glob", ["**/*"], tmp_path, as_text=["a"])
    assert list(enumerate_sources([source]).items) == ["a/notes/b.md"]


def test_names_with_signs_of_patterns(tmp_path: Path) -> None:
    """A file or folder whose name looks like a pattern is listed by name, and so are matches."""
    write(tmp_path, "a[1].md", "a1.md", "*.md", "docs[1]/b.md", "report [final].txt", "{x,y}.txt")
    assert read(tmp_path, r"a\[1\].md") == ["a[1].md"]
    assert read(tmp_path, "a[1].md") == ["a1.md", "a[1].md"]
    assert read(tmp_path, "*.md") == ["*.md", "a1.md", "a[1].md"]
    assert read(tmp_path, "docs[1]", "report [final].txt") == ["docs[1]/b.md", "report [final].txt"]
    assert read(tmp_path, "docs[1]/*.md") == []
    assert read(tmp_path, r"docs\[1\]/*.md") == ["docs[1]/b.md"]
    assert read(tmp_path, r"\{x,y\}.txt") == ["{x,y}.txt"]


def test_folders_of_tools(tmp_path: Path) -> None:
    """Packages, caches and virtual environments are skipped unless a pattern names them."""
    write(tmp_path, "a.md", "node_modules/x/b.md", "src/node_modules/c.md", "src/__pycache__/d.md")
    write(tmp_path, "any name/pyvenv.cfg", "any name/lib/e.md", ".venv/f.md")
    assert read(tmp_path, "**/*.md") == ["a.md"]
    assert skipped(tmp_path, "**/*.md") == {
        "node_modules/": "node_modules",
        "src/node_modules/": "node_modules",
        "src/__pycache__/": "__pycache__",
        "any name/": "virtual environments",
    }
    assert read(tmp_path, "node_modules/**/*.md") == ["node_modules/x/b.md"]
    assert read(tmp_path, "any name/lib") == ["any name/lib/e.md"]
    found, *_ = files_below(tmp_path, ["**/*.md"], exclude=["**/node_modules/**", "any name/**"])
    assert [one.name for one in found] == ["a.md", "src/__pycache__/"]
    found, *_ = files_below(tmp_path, ["**/*.md"], all_folders=True)
    assert len(found) == 5


def test_excluded_folders(tmp_path: Path) -> None:
    """A pattern that names a folder excludes its content; one with wildcards, what it matches."""
    write(tmp_path, "a.md", "drafts/b.md", "drafts/x/c.md", "docs/drafts/d.md", "docs/e.md")

    def left(*exclude: str) -> list[str]:
        return [one.name for one in files_below(tmp_path, ["**/*.md"], exclude=exclude).found]

    without = ["a.md", "docs/drafts/d.md", "docs/e.md"]
    assert left("drafts") == left("drafts/") == left("./drafts/**") == without
    assert left("**/drafts") == ["a.md", "docs/e.md"]
    assert left("docs/*") == ["a.md", "docs/drafts/d.md", "drafts/b.md", "drafts/x/c.md"]
    assert left("{docs,drafts}") == ["a.md"]


def test_patterns_that_match_nothing(tmp_path: Path) -> None:
    """Patterns without a match are reported, including one that names an empty folder."""
    write(tmp_path, "a.md", "b/c.txt", "b/d.md")
    (tmp_path / "empty").mkdir()
    patterns = ["*.md", "b", "gone/**/*.md", "b/*.{txt,rst}", "b/*.pdf", "empty", "a.MD", "e.md"]
    unmatched = files_below(tmp_path, patterns).unmatched
    assert unmatched == ["gone/**/*.md", "b/*.pdf", "empty", "e.md"]
    source = FileSource("file_glob", ["*.md", "gone"], tmp_path, shown_as=["*.md", "{{ .env.D }}"])
    report = enumerate_sources([source]).sources[0]
    assert (report.status, report.notices) == ("ok", ["{{ .env.D }} matches no file"])


def test_a_folder_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that cannot be listed fails the source, so its documents are not deleted."""
    write(tmp_path, "docs/shut/a.md", "docs/b.md")
    real = os.scandir

    def refusing(path: Path) -> object:
        if Path(path).name == "shut":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(SourceError, match="docs/shut: cannot be listed: Permission denied"):
        read(tmp_path, "docs/**/*.md")
    for exclude in ("docs/shut", "docs/shut/**"):
        found, *_ = files_below(tmp_path, ["docs/**/*.md"], exclude=[exclude])
        assert [one.name for one in found] == ["docs/b.md"]
    assert read(tmp_path, "docs/*.md") == ["docs/b.md"]


def test_kinds_that_no_loader_reads(tmp_path: Path) -> None:
    """A file of unknown format is skipped unless its content or a pattern identifies it."""
    write(tmp_path, "a.md", "b.zzz", "c.zzz", "LICENSE", "notes.conf5")
    write(tmp_path, "page", text="<!doctype html><p>hello")
    (tmp_path / "z.zip").write_bytes(b"PK\x03\x04")
    with zipfile.ZipFile(tmp_path / "memo", "w") as package:
        package.writestr("filler", "x" * 5000)
        package.writestr("word/document.xml", "<x/>")

    def listed(*patterns: str, as_text: tuple[str, ...] = ()) -> tuple[list[str], str]:
        source = FileSource("file_glob", patterns, tmp_path, as_text=as_text)
        found = enumerate_sources([source])
        return sorted(found.items), skipped_summary(found.sources[0].skipped)

    assert listed("**/*") == (
        ["a.md", "memo", "page"],
        ".zzz 2, .conf5 1, .zip 1, no ending 1",
    )
    assert listed("**/*", as_text=("LICENSE", "*.conf5")) == (
        ["LICENSE", "a.md", "memo", "notes.conf5", "page"],
        ".zzz 2, .zip 1",
    )
    assert listed("**/*", "b.zzz")[0] == ["a.md", "b.zzz", "memo", "page"]
    report = enumerate_sources([FileSource("file_glob", ["*.zzz"], tmp_path)]).sources[0]
    assert (report.status, report.reason) == ("failed", "all that it finds is skipped: .zzz 2")
    assert report.skipped == [Skipped("b.zzz", ".zzz"), Skipped("c.zzz", ".zzz")]


def test_a_linked_folder_outside(tmp_path: Path) -> None:
    """Files that a pattern reaches through a link out of the folder are not even listed."""
    write(tmp_path, "secret/a.md", "project/b.md")
    os.symlink(tmp_path / "secret", tmp_path / "project" / "linked")
    found, unmatched, _ = files_below(tmp_path / "project", ["linked", "linked/*.md", "b.md"])
    assert [(one.name, one.skipped) for one in found] == [
        ("b.md", ""),
        ("linked/", "links out of the folder"),
    ]
    assert unmatched == ["linked", "linked/*.md"]


def test_only_folders_are_skipped(tmp_path: Path) -> None:
    """If no file matches, the error names the folders that were skipped."""
    write(tmp_path, "node_modules/a.txt")
    report = enumerate_sources([FileSource("file_glob", ["**/*.md"], tmp_path)]).sources[0]
    assert report.status == "failed"
    assert report.reason.endswith("matches **/*.md (node_modules/ is skipped: node_modules)")
