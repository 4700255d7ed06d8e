"""Which files are found below a folder, and what is skipped for which reason."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.ingest.enumeration import enumerate_sources
from lorebind_knowledge.ingest.report import Skipped, skipped_summary
from lorebind_knowledge.sources.files import FileSource
from lorebind_knowledge.sources.folder import files_below
from lorebind_knowledge.sources.markdown_glob import MarkdownGlobSource
from tests.density import examples


def write(root: Path, *names: str, text: str = "x") -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def read(root: Path, *patterns: str, heed: bool = True, in_folder: str = "**/*") -> list[str]:
    """Return the names of the files to read."""
    found, _ = files_below(root, patterns, respect_gitignore=heed, in_folder=in_folder)
    return [one.name for one in found if not one.skipped]


def skipped(root: Path, *patterns: str) -> dict[str, str]:
    """Return the reason for each file or folder that is skipped."""
    return {one.name: one.skipped for one in files_below(root, patterns).found if one.skipped}


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
    found, _ = files_below(tmp_path, ["**/*.md"], exclude=["**/node_modules/**", "any name/**"])
    assert [one.name for one in found] == ["a.md", "src/__pycache__/"]
    found, _ = files_below(tmp_path, ["**/*.md"], all_folders=True)
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
    _, unmatched = files_below(tmp_path, patterns)
    assert unmatched == ["gone/**/*.md", "b/*.pdf", "empty", "e.md"]
    source = FileSource("file_glob", ["*.md", "gone"], tmp_path, shown_as=["*.md", "{{ .env.D }}"])
    report = enumerate_sources([source]).sources[0]
    assert (report.status, report.notices) == ("ok", ["{{ .env.D }} matches no file"])


def test_gitignore(tmp_path: Path) -> None:
    """Rules apply below their file, deeper ones take precedence, and can include files again."""
    write(tmp_path, "a.md", "b.log", "keep.log", "build/c.md", "docs/d.log", "docs/deep/e.md")
    write(tmp_path, ".gitignore", text="*.log\n!keep.log\nbuild/\n# note\n\n\\\n")
    write(tmp_path, "docs/.gitignore", text="!d.log\ndeep/*\n")
    assert read(tmp_path, "**/*") == ["a.md", "docs/d.log", "keep.log"]
    assert skipped(tmp_path, "**/*") == dict.fromkeys(
        ("b.log", "build/", "docs/deep/e.md"), ".gitignore"
    )
    assert len(read(tmp_path, "**/*", heed=False)) == 6


def test_an_ignored_folder_that_is_meant(tmp_path: Path) -> None:
    """A folder or file that a pattern names is read even if a `.gitignore` excludes it."""
    write(tmp_path, "build/docs/a.md", "build/docs/b.tmp")
    write(tmp_path, ".gitignore", text="build/\n")
    write(tmp_path, "build/docs/.gitignore", text="*.tmp\n")
    assert read(tmp_path, "**/*") == []
    assert read(tmp_path, "build/docs/**/*") == read(tmp_path, "build/docs") == ["build/docs/a.md"]
    assert read(tmp_path, "build/docs/b.tmp") == ["build/docs/b.tmp"]


def test_the_rules_of_the_repository_above(tmp_path: Path) -> None:
    """Rules above the project folder apply up to the top of its repository, but not beyond."""
    write(tmp_path, ".gitignore", text="*.md\n")
    write(tmp_path, "repo/.gitignore", text="/project/_build/\n*.log\n")
    write(tmp_path, "repo/project/_build/a.md", "repo/project/b.log", "repo/project/c.md")
    project = tmp_path / "repo" / "project"
    assert read(project, "**/*") == ["_build/a.md", "b.log", "c.md"]
    (tmp_path / "repo" / ".git").mkdir()
    assert read(project, "**/*") == ["c.md"]
    assert read(project, "_build") == ["_build/a.md"]


@pytest.mark.parametrize(
    "rules",
    [
        "[",
        "*a" * 120,
        "\\",
        "x" * 300_000,
        "\x00",
        "[!]",
        "**/a/**/a/**/a/**/a/**/a/**/b",
        "\n".join(f"/no{number}" for number in range(100_000)),
    ],
)
def test_rules_that_mean_harm(tmp_path: Path, rules: str) -> None:
    """Rules that are invalid, or would take a regular expression forever, hide nothing."""
    deep = "a/" * 60
    write(tmp_path, "a" * 200, "b.md", f"{deep}c.md")
    write(tmp_path, ".gitignore", text=rules)
    assert {"b.md", f"{deep}c.md"} <= set(read(tmp_path, "**/*"))


def test_rules_with_a_mark_of_their_encoding(tmp_path: Path) -> None:
    """A byte order mark is not part of the first rule, as in git."""
    write(tmp_path, "a.log", "b.md")
    (tmp_path / ".gitignore").write_bytes(b"\xef\xbb\xbf*.log\n")
    assert read(tmp_path, "**/*") == ["b.md"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_rules_that_are_a_pipe(tmp_path: Path) -> None:
    """A `.gitignore` that is a named pipe does not block."""
    write(tmp_path, "a.md")
    os.mkfifo(tmp_path / ".gitignore")
    assert read(tmp_path, "**/*") == ["a.md"]


_names = st.sampled_from(["a", "b", "c.md", "d.log", "e f"])
_paths = st.lists(_names, min_size=1, max_size=3).map("/".join)
_rule = st.sampled_from(
    ["a", "b/", "/a", "a/b", "*.md", "*.log", "!c.md", "!a/", "**/b", "a/**", "/*", "!/a/", "*",
     "!*/", "e f", "e f/", "a/*.md", "!d.log", "b/**/c.md", "?", "[ab]", "#x", "  ", "c.md "]
)  # fmt: skip


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@settings(max_examples=examples(40), deadline=None)
@given(
    paths=st.lists(_paths, min_size=1, max_size=8),
    rules=st.lists(_rule, max_size=5),
    deeper=st.tuples(st.sampled_from(["a", "b"]), st.lists(_rule, max_size=3)),
)
@example(paths=["d.log/c.md/a"], rules=["c.md ", "!d.log"], deeper=("a", []))
def test_git_says_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    paths: list[str],
    rules: list[str],
    deeper: tuple[str, list[str]],
) -> None:
    """The files that are read are those that git would include."""
    root = tmp_path_factory.mktemp("repository")
    for path in paths:
        try:
            write(root, path)
        except (NotADirectoryError, FileExistsError, IsADirectoryError):
            continue  # the name is both a file and a folder
    (root / ".gitignore").write_text("\n".join(rules))
    if (root / deeper[0]).is_dir():
        (root / deeper[0] / ".gitignore").write_text("\n".join(deeper[1]))
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    asked = ["git", "-C", str(root), "-c", "core.excludesFile=", "ls-files", "-z"]
    told = subprocess.run(
        [*asked, "--others", "--exclude-standard"], check=True, capture_output=True
    ).stdout.decode()
    assert read(root, "**/*") == sorted(
        name for name in told.split("\0") if name and ".gitignore" not in name
    )


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
        found, _ = files_below(tmp_path, ["docs/**/*.md"], exclude=[exclude])
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
    found, unmatched = files_below(tmp_path / "project", ["linked", "linked/*.md", "b.md"])
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
