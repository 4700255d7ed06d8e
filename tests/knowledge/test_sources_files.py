"""Files as a source: which are listed, in which order, and which are refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lorebind_config.errors import SourceError
from lorebind_knowledge.sources.base import Content, SourceItem
from lorebind_knowledge.sources.folder.files import FileSource


def write(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name, encoding="utf-8")


def items(root: Path, *patterns: str, exclude: tuple[str, ...] = ()) -> dict[str, SourceItem]:
    source = FileSource("markdown_glob", patterns, root, exclude=exclude)
    listed = [item for item in source.items() if not item.skipped]
    by_uri = {item.uri: item for item in listed}
    assert len(by_uri) == len(listed)
    assert list(by_uri) == sorted(by_uri)
    return by_uri


def data(item: SourceItem) -> bytes:
    content = item.read("")
    assert isinstance(content, Content)
    assert (content.media_type, content.version, content.metadata) == ("", "", {})
    return content.data


def test_globstar_and_braces(tmp_path: Path) -> None:
    """`**` crosses any number of folders, braces are alternatives, and `*` stays in its folder."""
    write(tmp_path, "docs/a.md", "docs/x/b.md", "docs/x/y/c.md", "docs/d.txt", "docs/e.rst")
    assert list(items(tmp_path, "docs/**/*.md")) == ["docs/a.md", "docs/x/b.md", "docs/x/y/c.md"]
    assert list(items(tmp_path, "docs/*.md")) == ["docs/a.md"]
    assert list(items(tmp_path, "docs/*.{txt,rst}")) == ["docs/d.txt", "docs/e.rst"]
    assert list(items(tmp_path, "docs/{x,nowhere}/*.md")) == ["docs/x/b.md"]
    assert list(items(tmp_path, "docs/a.md")) == ["docs/a.md"]


def test_hidden_files_are_passed_over(tmp_path: Path) -> None:
    """Hidden files and files in hidden folders are not listed."""
    write(tmp_path, "docs/a.md", "docs/.hidden.md", "docs/.git/b.md", ".lorebind/c.md")
    assert list(items(tmp_path, "**/*.md")) == ["docs/a.md"]


def test_exclude(tmp_path: Path) -> None:
    """Files that match an exclude pattern are skipped."""
    write(tmp_path, "docs/a.md", "docs/drafts/b.md", "docs/drafts/x/c.md", "docs/CHANGELOG.md")
    files = items(tmp_path, "docs/**/*.md", exclude=("docs/drafts/**", "**/CHANGELOG.md"))
    assert list(files) == ["docs/a.md"]


def test_a_file_of_several_patterns_is_listed_once(tmp_path: Path) -> None:
    """A file that several patterns match, however they are spelled, is one document."""
    write(tmp_path, "docs/a.md", "docs/b.md")
    assert list(items(tmp_path, "docs/b.md", "docs/*.md", "./docs/a.md", "docs//a.md")) == [
        "docs/a.md",
        "docs/b.md",
    ]


def test_what_is_read(tmp_path: Path) -> None:
    """An item returns the bytes of its file at the time it is read."""
    write(tmp_path, "docs/a.md")
    item = items(tmp_path, "docs/*.md")["docs/a.md"]
    (tmp_path / "docs/a.md").write_bytes(b"\xff\x00new")
    assert data(item) == b"\xff\x00new"


def test_no_match(tmp_path: Path) -> None:
    """A pattern without a file is an error that names it; folders do not count as files."""
    (tmp_path / "docs" / "folder.md").mkdir(parents=True)
    with pytest.raises(SourceError, match=r"no file in .* matches docs/\*.md or \*.txt"):
        items(tmp_path, "docs/*.md", "*.txt")


def test_missing_folder(tmp_path: Path) -> None:
    """A missing project folder is an error, not an empty list."""
    with pytest.raises(SourceError, match="gone does not exist"):
        items(tmp_path / "gone", "**/*.md")


def test_link_to_the_outside(tmp_path: Path) -> None:
    """Reading a link out of the project folder is refused, but not one inside it."""
    root = tmp_path / "project"
    write(root, "docs/a.md")
    write(tmp_path, "secret.md")
    os.symlink(tmp_path / "secret.md", root / "docs" / "out.md")
    os.symlink(root / "docs" / "a.md", root / "docs" / "in.md")
    files = items(root, "docs/**/*.md")
    assert data(files["docs/in.md"]) == b"docs/a.md"
    with pytest.raises(SourceError, match=r"docs/out.md: is a link to a location outside"):
        data(files["docs/out.md"])


def test_link_of_a_folder_to_the_outside(tmp_path: Path) -> None:
    """`**` does not search a linked folder; files that a pattern reaches through it are refused."""
    root = tmp_path / "project"
    write(root, "docs/a.md")
    write(tmp_path, "outside/secret.md")
    os.symlink(tmp_path / "outside", root / "docs" / "linked")
    assert list(items(root, "docs/**/*.md")) == ["docs/a.md"]
    with pytest.raises(SourceError, match="docs/linked/ is skipped: links out of the folder"):
        items(root, "docs/linked/*.md")


def test_link_loops_end(tmp_path: Path) -> None:
    """A folder that links to itself is listed once, and a file that does cannot be read."""
    write(tmp_path, "docs/a.md")
    os.symlink(tmp_path / "docs", tmp_path / "docs" / "again")
    assert list(items(tmp_path, "docs/**/*.md")) == ["docs/a.md"]
    item = items(tmp_path, "docs/*.md")["docs/a.md"]
    (tmp_path / "docs" / "a.md").unlink()
    os.symlink("a.md", tmp_path / "docs" / "a.md")
    with pytest.raises(SourceError, match=r"docs/a.md: cannot be read: .*symbolic links"):
        data(item)


def test_project_folder_behind_a_link(tmp_path: Path) -> None:
    """A project folder that is a link itself works like any other."""
    write(tmp_path / "real", "docs/a.md")
    os.symlink(tmp_path / "real", tmp_path / "project")
    assert data(items(tmp_path / "project", "docs/*.md")["docs/a.md"]) == b"docs/a.md"


def test_vanished_between_listing_and_reading(tmp_path: Path) -> None:
    """A file that vanishes after the listing fails alone, by its name."""
    write(tmp_path, "docs/a.md")
    item = items(tmp_path, "docs/*.md")["docs/a.md"]
    (tmp_path / "docs/a.md").unlink()
    with pytest.raises(SourceError, match=r"docs/a.md: cannot be read: No such file"):
        data(item)


def test_unreadable(tmp_path: Path) -> None:
    """A file that this user may not read fails with that reason."""
    write(tmp_path, "docs/a.md")
    (tmp_path / "docs/a.md").chmod(0)
    if os.access(tmp_path / "docs/a.md", os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(SourceError, match=r"docs/a.md: cannot be read: Permission denied"):
        data(items(tmp_path, "docs/*.md")["docs/a.md"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipes_are_no_documents(tmp_path: Path) -> None:
    """A named pipe, which would block forever, is refused."""
    write(tmp_path, "docs/a.md")
    os.mkfifo(tmp_path / "docs" / "pipe.md")
    files = items(tmp_path, "docs/*.md")
    if "docs/pipe.md" in files:
        with pytest.raises(SourceError, match=r"docs/pipe.md: is not a regular file"):
            data(files["docs/pipe.md"])


def test_too_large(tmp_path: Path) -> None:
    """A file of the maximum size is read; one more byte is refused."""
    write(tmp_path, "docs/a.md")
    (item,) = FileSource("file_glob", ["docs/*"], tmp_path, max_bytes=2048).items()
    (tmp_path / "docs/a.md").write_bytes(b"x" * 2048)
    assert len(data(item)) == 2048
    (tmp_path / "docs/a.md").write_bytes(b"x" * 2049)
    with pytest.raises(SourceError, match=r"docs/a.md: is larger than 2 KiB"):
        data(item)


@pytest.mark.parametrize("change", [b"longer than before", b"DOCS/A.MD", b""])
def test_changed_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: bytes
) -> None:
    """A file that is written while it is read is refused instead of being half old, half new."""
    write(tmp_path, "docs/a.md")
    path = tmp_path / "docs" / "a.md"
    os.utime(path, ns=(1, 1))
    item = items(tmp_path, "docs/*.md")["docs/a.md"]
    real, calls = os.fstat, 0

    def looked_at(descriptor: int) -> os.stat_result:
        nonlocal calls
        calls += 1
        if calls == 2:
            path.write_bytes(change)
        return real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", looked_at)
        with pytest.raises(SourceError, match=r"docs/a.md: changed while it was read"):
            data(item)
    assert data(item) == change


def test_endings(tmp_path: Path) -> None:
    """If only some extensions are allowed, files with others are skipped, in any case."""
    write(tmp_path, "a.vtt", "b.SRT", "c.mp4")
    source = FileSource("media_transcript", ["*"], tmp_path, endings=(".vtt", ".srt"))
    listed = [(item.uri, item.skipped) for item in source.items()]
    assert listed == [("a.vtt", ""), ("b.SRT", ""), ("c.mp4", ".mp4")]


def test_names_that_are_no_text(tmp_path: Path) -> None:
    """A file whose name is not UTF-8 has a uri that is, and can be read."""
    write(tmp_path, "docs/a.md")
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/docs/caf\xe9.md")).write_bytes(b"x")
    except (OSError, UnicodeError):
        pytest.skip("this file system takes names of UTF-8 only")
    files = items(tmp_path, "docs/*.md")
    assert list(files) == ["docs/a.md", "docs/caf\\xe9.md"]
    assert data(files["docs/caf\\xe9.md"]) == b"x"


def test_key(tmp_path: Path) -> None:
    """The key of a source consists of its kind and patterns."""
    assert FileSource("file_glob", ["a/*.md", "b"], tmp_path).key == "file_glob:a/*.md,b"
