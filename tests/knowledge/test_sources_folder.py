"""Which files are found below a folder, and what is skipped for which reason."""

from __future__ import annotations

import errno
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from lorebind_config.errors import SourceError
from lorebind_knowledge.ingest.corpus import enumerate_sources
from lorebind_knowledge.ingest.report import Skipped, SourceReport, skipped_summary
from lorebind_knowledge.sources.folder.files import FileGlobSource, FileSource, MarkdownGlobSource

from .folders import files_below, read, shut, skipped, unlisted, write


def report(root: Path, *patterns: str, as_text: tuple[str, ...] = ()) -> SourceReport:
    """Return the report on a source that has all settings of `file_glob`."""
    settings = FileGlobSource.model_fields
    source = FileSource("file_glob", patterns, root, as_text=as_text, settings=settings)
    return enumerate_sources([source]).sources[0]


def test_endings_in_any_case(tmp_path: Path) -> None:
    """Extensions match in upper and lower case, in patterns and in excluded ones."""
    write(tmp_path, "a.md", "b.MD", "c.Md", "d.txt", "E.md.bak", "UP/f.md")
    assert read(tmp_path, "**/*.md") == ["UP/f.md", "a.md", "b.MD", "c.Md"]
    assert read(tmp_path, "*.{MD,TXT}") == ["a.md", "b.MD", "c.Md", "d.txt"]
    assert read(tmp_path, "up/*.md") == []
    assert read(tmp_path, "a.MD") == ["a.md"]
    assert files_below(tmp_path, ["*.md"], exclude=["*.MD"]).entries == []


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
    assert list(enumerate_sources([source]).uris()) == ["a/notes/b.md"]


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
    write(tmp_path, "any name/pyvenv.cfg", "any name/lib/e.md", "conda/conda-meta/history")
    write(tmp_path, "conda/f.md", ".venv/pyvenv.cfg", ".venv/g.md")
    assert read(tmp_path, "**/*.md") == ["a.md"]
    assert skipped(tmp_path, "**/*.md") == {
        "node_modules/": "node_modules",
        "src/node_modules/": "node_modules",
        "src/__pycache__/": "__pycache__",
        "any name/": "virtual environments",
        "conda/": "virtual environments",
        ".venv/": "virtual environments",
    }
    assert read(tmp_path, "node_modules/**/*.md") == ["node_modules/x/b.md"]
    assert read(tmp_path, "any name/lib") == ["any name/lib/e.md"]
    exclude = ["**/node_modules/**", "any name/**", "conda", ".venv"]
    entries, *_ = files_below(tmp_path, ["**/*.md"], exclude=exclude)
    assert [entry.name for entry in entries] == ["a.md", "src/__pycache__/"]
    entries, *_ = files_below(tmp_path, ["**/*.md"], all_folders=True)
    assert [entry.name for entry in entries if entry.skipped] == [".venv/"]
    assert len(entries) == 7


def test_folders_of_version_control(tmp_path: Path) -> None:
    """A pattern for all hidden folders skips the data of version control and of Lorebind."""
    write(tmp_path, ".notes/a.md", ".git/b.md", ".hg/c.md", ".svn/d.md", ".lorebind/e.md")
    assert read(tmp_path, ".*/**/*") == [".notes/a.md"]
    names = (".git", ".hg", ".svn", ".lorebind")
    assert skipped(tmp_path, ".*/**/*") == {f"{name}/": name for name in names}
    assert skipped(tmp_path, "**/*") == {".notes/": "hidden"}


def test_hidden_files(tmp_path: Path) -> None:
    """Files and folders that only lack a dot in the pattern are reported, and no others."""
    write(tmp_path, "a.md", ".b.md", ".env", ".notes/c.md", "x/.d.md", "x/.deep/e.md")
    write(tmp_path, ".gitignore", text="")
    assert read(tmp_path, "**/*.md") == ["a.md"]
    hidden = (".b.md", ".notes/", "x/.d.md", "x/.deep/")
    assert skipped(tmp_path, "**/*.md") == dict.fromkeys(hidden, "hidden")
    assert skipped(tmp_path, "**/*") == dict.fromkeys((*hidden, ".env"), "hidden")
    assert skipped(tmp_path, "*.md") == {".b.md": "hidden"}
    assert skipped(tmp_path, "**/*.md", ".notes", ".b.md", "x/.*") == {"x/.deep/": "hidden"}
    paths = files_below(tmp_path, ["**/*"], exclude=[".*", ".notes", "**/.deep", "x/.d.md"]).entries
    assert [path.name for path in paths] == ["a.md"]


def test_excluded_folders(tmp_path: Path) -> None:
    """A pattern that names a folder excludes its content; one with wildcards, what it matches."""
    write(tmp_path, "a.md", "drafts/b.md", "drafts/x/c.md", "docs/drafts/d.md", "docs/e.md")

    def left(*exclude: str) -> list[str]:
        return [row.name for row in files_below(tmp_path, ["**/*.md"], exclude=exclude).entries]

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


def test_patterns_for_the_same_file(tmp_path: Path) -> None:
    """If two patterns have a common alternative, a file that it finds matches both."""
    write(tmp_path, "shelf/UPPER.MD")
    patterns = ["shelf/UPPER.md", "shelf/{UPPER,x}.md"]
    listing = files_below(tmp_path, patterns)
    assert ([row.name for row in listing.entries], listing.unmatched) == (["shelf/UPPER.MD"], [])


def test_a_folder_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that cannot be listed is reported, unless it is excluded, and the rest is read."""
    write(tmp_path, "docs/shut/a.md", "docs/b.md")
    shut(tmp_path / "docs" / "shut", monkeypatch)
    reason = {"docs/shut/": "Permission denied"}
    for pattern in (
        "docs/**/*.md",
        "docs",
        "**/*",
        "docs/shut/*.md",
        "docs/shut",
        "docs/shut/a.md",
    ):
        assert (pattern, unlisted(tmp_path, pattern)) == (pattern, reason)
        listing = files_below(tmp_path, [pattern, "docs/*.md"])
        assert [entry.name for entry in listing.entries if not entry.unlisted] == ["docs/b.md"]
        assert listing.unmatched == [], "nobody knows what it would match"
    for exclude in ("docs/shut", "docs/shut/**"):
        entries, *_ = files_below(tmp_path, ["docs/**/*.md", "docs/shut/a.md"], exclude=[exclude])
        assert [entry.name for entry in entries] == ["docs/b.md"]
    assert unlisted(tmp_path, "docs/*.md") == {}
    failed = report(tmp_path, "docs/shut")
    assert (failed.status, failed.reason) == (
        "failed",
        "docs/shut/ cannot be listed: Permission denied",
    )


def test_a_folder_that_is_removed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that is removed while the others are listed is not reported."""
    root = tmp_path / "project"
    write(root, "a/b.md", "c.md")
    real = os.scandir

    def remove(path: Path) -> Any:
        if os.path.basename(path) == "a":
            os.rename(path, tmp_path / "removed")
        return real(path)

    monkeypatch.setattr(os, "scandir", remove)
    assert [entry.name for entry in files_below(root, ["**/*"]).entries] == ["c.md"]


def test_a_link_to_a_file_that_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A named link to an unreadable location may be a file or a folder, so both are reported."""
    write(tmp_path, "shut/a.md", "b.md")
    os.symlink("shut/a.md", tmp_path / "link.md")
    shut(tmp_path / "shut", monkeypatch)
    real = os.stat

    def follow(path: Path, **options: Any) -> Any:
        linked = os.path.basename(path) == "link.md"
        return real(tmp_path / "shut" / "a.md" if linked else path, **options)

    monkeypatch.setattr(os, "stat", follow)
    assert read(tmp_path, "link.md", "b.md") == ["b.md", "link.md"]
    assert unlisted(tmp_path, "link.md", "b.md") == {"link.md/": "Permission denied"}


def test_a_project_folder_that_cannot_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the project folder itself cannot be listed, the source fails."""
    write(tmp_path, "a.md")
    shut(tmp_path, monkeypatch)
    with pytest.raises(SourceError, match="cannot be listed: Permission denied"):
        read(tmp_path, "*.md")


def test_a_link_that_is_replaced_while_it_is_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder behind it is omitted, and the others are listed."""
    write(tmp_path, "a.md", "folder/b.md")
    os.symlink("folder", tmp_path / "link")

    def readlink(path: str, **_: object) -> str:
        raise OSError(errno.EINVAL, "Invalid argument", path)

    monkeypatch.setattr(os, "readlink", readlink)
    assert read(tmp_path, "**/*.md") == ["a.md", "folder/b.md"]


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    """A link to itself or to nothing is a file, which fails alone."""
    write(tmp_path, "a.md")
    os.symlink("loop.md", tmp_path / "loop.md")
    os.symlink("gone", tmp_path / "dangling.md")
    every = ["a.md", "dangling.md", "loop.md"]
    assert read(tmp_path, "**/*") == read(tmp_path, "*.md") == every
    assert read(tmp_path, "a.md", "loop.md") == ["a.md", "loop.md"]


def test_kinds_that_no_loader_reads(tmp_path: Path) -> None:
    """A file of unknown format is skipped unless its content or a pattern identifies it."""
    write(tmp_path, "a.md", "b.zzz", "c.zzz", "LICENSE", "notes.conf5", "d.md.")
    write(tmp_path, "page", text="<!doctype html><p>hello")
    (tmp_path / "z.zip").write_bytes(b"PK\x03\x04")
    with zipfile.ZipFile(tmp_path / "memo", "w") as package:
        package.writestr("filler", "x" * 5000)
        package.writestr("word/document.xml", "<x/>")

    def listed(*patterns: str, as_text: tuple[str, ...] = ()) -> tuple[list[str], str]:
        source = FileSource("file_glob", patterns, tmp_path, as_text=as_text)
        listing = enumerate_sources([source])
        return list(listing.uris()), skipped_summary(listing.sources[0].skipped)

    assert listed("**/*") == (
        ["a.md", "memo", "page"],
        ".zzz 2, no extension 2, .conf5 1, .zip 1",
    )
    assert listed("**/*", as_text=("LICENSE", "*.conf5")) == (
        ["LICENSE", "a.md", "memo", "notes.conf5", "page"],
        ".zzz 2, .zip 1, no extension 1",
    )
    assert listed("**/*", "b.zzz")[0] == ["a.md", "b.zzz", "memo", "page"]
    failed = report(tmp_path, "*.zzz")
    assert (failed.status, failed.reason) == ("failed", "all that it finds is skipped: .zzz 2")
    assert failed.skipped == [
        Skipped("b.zzz", ".zzz", "as_text"),
        Skipped("c.zzz", ".zzz", "as_text"),
    ]


def test_the_setting_with_which_a_skipped_file_is_read(tmp_path: Path) -> None:
    """A report names the setting that reads a skipped file, and none where that would fail."""
    write(tmp_path, "a.md", "LICENSE", "build/b.md", "c.log", "d.bin", ".e.md", ".env", ".notes/f")
    write(tmp_path, "node_modules/g.md", "shelf/h.md")
    write(tmp_path, ".gitignore", text="build/\n*.log\n*.bin\n")
    (tmp_path / "i.gif").write_bytes(b"GIF89a\0\0\0\rIHDR")
    (tmp_path / "j.odt").write_bytes(b"PK\x03\x04\x14\0")
    (tmp_path / "latin.zzz").write_bytes("Grüße aus Köln, schöne Tage".encode("latin-1"))
    (tmp_path / "long").write_bytes("ä".encode() * 4001)
    os.symlink("shelf", tmp_path / "linked")
    os.symlink("/usr", tmp_path / "out")
    expected = {
        "LICENSE": "as_text",
        "latin.zzz": "as_text",
        "long": "as_text",
        "i.gif": "",
        "j.odt": "",
        "build/": "respect_gitignore",
        "c.log": "respect_gitignore",
        "d.bin": "",
        ".e.md": "paths",
        ".env": "",
        ".notes/": "paths",
        "node_modules/": "paths",
        "linked/": "paths",
        "out/": "",
    }
    assert {file.uri: file.setting for file in report(tmp_path, "**/*").skipped} == expected
    ways = {"as_text": [], "paths": ["**/*"]} | {
        setting: [name for name, value in expected.items() if value == setting]
        for setting in ("as_text", "paths")
    }
    source = FileSource(
        "file_glob",
        ["**/*", *ways["paths"]],
        tmp_path,
        as_text=ways["as_text"],
        respect_gitignore=False,
    )
    listing = enumerate_sources([source])
    left = {file.uri for file in listing.sources[0].skipped}
    assert left == {name for name, setting in expected.items() if not setting} | {".notes/f"}
    for listed in listing.compared(()):
        assert listing.item(listed).read("")
    bare = enumerate_sources([FileSource("file", ["**/*"], tmp_path)]).sources[0]
    assert {file.setting for file in bare.skipped} == {""}, "a bucket has no such settings"


def test_a_linked_folder_outside(tmp_path: Path) -> None:
    """Files that a pattern reaches through a link out of the folder are not even listed."""
    write(tmp_path, "secret/a.md", "project/b.md")
    os.symlink(tmp_path / "secret", tmp_path / "project" / "linked")
    entries, unmatched, _ = files_below(tmp_path / "project", ["linked", "linked/*.md", "b.md"])
    assert [(entry.name, entry.skipped) for entry in entries] == [
        ("b.md", ""),
        ("linked/", "links out of the folder"),
    ]
    assert unmatched == ["linked", "linked/*.md"]
    assert skipped(tmp_path / "project", "**/*.md") == {"linked/": "links out of the folder"}


def test_only_folders_are_skipped(tmp_path: Path) -> None:
    """If no file matches, the error names the folders that were skipped."""
    write(tmp_path, "node_modules/a.txt")
    report = enumerate_sources([FileSource("file_glob", ["**/*.md"], tmp_path)]).sources[0]
    assert report.status == "failed"
    assert report.reason.endswith("matches **/*.md (node_modules/ is skipped: node_modules)")
