"""The rules of `.gitignore` files mean what they mean for git."""

from __future__ import annotations

import os
import shutil
import subprocess
import warnings
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lorebind_knowledge.sources.folder.files import FileSource
from tests.density import examples

from .folders import files_below, read, skipped, write


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
        "*a" * 2000 + "b",
        "**/*a*/" * 500 + "b",
        "[[:a" * 1000,
        "[" * 4000 + "a",
        "( ?:" + " " * 4000 + "x",
    ],
)
def test_rules_that_mean_harm(tmp_path: Path, rules: str) -> None:
    """Rules that are invalid or very long hide nothing and take little time."""
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
     "!*/", "e f", "e f/", "a/*.md", "!d.log", "b/**/c.md", "?", "[ab]", "#x", "  ", "c.md ",
     "*.*", "*?*.*?*", "?.[lm]*d*", "**/*/**/c*.*d", "[[:alpha:]]", "[[:lower:]]?[[:space:]f]*",
     "[!a-c]*", "[[]", "\\c.md", "e\\ f ", "e f\\ ", "[a", "c.md\\", "***", "a/***/b", "/**/",
     "c.md\r"]
)  # fmt: skip


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@settings(max_examples=examples(400), deadline=None)
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
    command = ["git", "-C", str(root), "-c", "core.excludesFile=", "ls-files", "-z"]
    output = subprocess.run(
        [*command, "--others", "--exclude-standard"], check=True, capture_output=True
    ).stdout.decode()
    assert read(root, "**/*") == sorted(
        name for name in output.split("\0") if name and ".gitignore" not in name
    )


def test_wildcards_in_one_name(tmp_path: Path) -> None:
    """A rule may contain any number of wildcards in one name, and none of them is omitted."""
    write(tmp_path, "2026-01-02.md", "a_b_c_d.txt", "note.md")
    write(tmp_path, ".gitignore", text="????-??-??.md\n*_*_*_*.txt\n")
    assert files_below(tmp_path, ["**/*"]).notices == []
    assert read(tmp_path, "**/*") == ["note.md"]


def test_classes_of_characters(tmp_path: Path) -> None:
    """A set may contain classes of characters, and any other characters without a warning."""
    write(tmp_path, "a.md", "1.md", "_.md", "[.md", "&.md", "é.md")
    with warnings.catch_warnings(action="error"):
        for rule, ignored in {
            "[[:alpha:]].md": ["a.md"],
            "[![:digit:]_].md": ["&.md", "[.md", "a.md", "é.md"],
            "[[&&||--].md": ["&.md", "[.md"],
            "[[:punct:]].md": ["&.md", "[.md", "_.md"],
            "[[:unknown:]].md": [],
        }.items():
            write(tmp_path, ".gitignore", text=rule)
            assert (rule, sorted(skipped(tmp_path, "*.md"))) == (rule, ignored)


def test_rules_that_are_not_applied_are_reported(tmp_path: Path) -> None:
    """A report says if not all rules of a file are applied, and where that file is."""
    write(tmp_path, "repo/project/a.md", "repo/project/docs/b.md", "repo/.git/HEAD")
    project = tmp_path / "repo" / "project"
    rules = "# many\n" * 5000 + "\n".join(f"/no{number}" for number in range(1000))
    write(tmp_path, "repo/project/.gitignore", text=rules)
    assert files_below(project, ["**/*"]).notices == []
    write(tmp_path, "repo/.gitignore", "repo/project/docs/.gitignore", text=rules + "\nb.md\n")
    listing = files_below(project, ["**/*", "docs/*"])
    about = (
        "is not applied completely: it has more than 1,000 rules, 4,096 characters in a line, or "
        "256 KiB"
    )
    assert sorted(listing.notices) == [f"../.gitignore {about}", f"docs/.gitignore {about}"]
    source = FileSource("file_glob", ["**/*", "c.md"], project)
    list(source.items())
    assert source.notices == ["c.md matches no file", *files_below(project, ["**/*"]).notices]


def test_a_rule_at_the_limit_of_the_file(tmp_path: Path) -> None:
    """The rule at which reading a long file stops is not applied, since it may be incomplete."""
    write(tmp_path, "a.md", "b.mdx")
    start = ("#" * 4095 + "\n") * 64
    write(tmp_path, ".gitignore", text=start[4:] + "\n*.mdx\n")
    assert read(tmp_path, "*") == ["a.md", "b.mdx"]
    assert len(files_below(tmp_path, ["*"]).notices) == 1


def test_rules_that_cannot_be_read(tmp_path: Path) -> None:
    """A `.gitignore` that cannot be read is reported, and hides nothing."""
    write(tmp_path, "a.md")
    os.symlink(".gitignore", tmp_path / ".gitignore")
    listing = files_below(tmp_path, ["**/*"])
    assert [entry.name for entry in listing.entries] == ["a.md"]
    assert listing.notices == [
        ".gitignore cannot be read and is not applied: Too many levels of symbolic links"
    ]
