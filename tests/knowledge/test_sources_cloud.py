"""Objects of buckets in memory, and of folders used as buckets."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from lorebind_config.errors import SourceError
from lorebind_config.templates import Environment
from lorebind_knowledge.ingest.corpus import enumerate_sources
from lorebind_knowledge.ingest.report import skipped_summary
from lorebind_knowledge.sources.base import SourceItem
from lorebind_knowledge.sources.cloud_storage import CloudStorageSource
from lorebind_knowledge.sources.make import make_source

from .folders import content_of, shut, write


def items(root: Path = Path(), **declared: Any) -> dict[str, SourceItem]:
    declaration = CloudStorageSource(type="cloud_storage", **declared)
    every = make_source(declaration, Environment(root, {})).items()
    listed = [item for item in every if not item.skipped]
    assert [item.uri for item in listed] == sorted(item.uri for item in listed)
    return {item.uri: item for item in listed}


@pytest.fixture
def memory() -> Iterator[Any]:
    """The objects in memory, shared by the whole process."""
    system = fsspec.filesystem("memory")
    for name in ("docs/a.md", "docs/x/b.md", "docs/x/y/c.md", "docs/d.txt", "document.md"):
        system.pipe_file(f"/shelf/{name}", name.encode())
    system.pipe_file("/shelf/docs/.hidden.md", b"hidden")
    system.pipe_file("/other/docs/e.md", b"other")
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


@pytest.mark.usefixtures("memory")
def test_pattern_below_a_prefix() -> None:
    """Objects of this bucket that start with the prefix and match the pattern are listed."""
    below = items(provider="memory", bucket="shelf", prefix="docs/", pattern="**/*.md")
    names = ["docs/a.md", "docs/x/b.md", "docs/x/y/c.md"]
    assert list(below) == [f"memory://shelf/{name}" for name in names]
    assert content_of(below["memory://shelf/docs/x/b.md"]).data == b"docs/x/b.md"
    below = items(provider="memory", bucket="shelf", prefix="docs/", pattern="*.{md,txt}")
    assert list(below) == ["memory://shelf/docs/a.md", "memory://shelf/docs/d.txt"]


@pytest.mark.usefixtures("memory")
def test_kinds_are_told_by_their_content() -> None:
    """An object with an unknown extension is skipped only if its content is unknown too."""
    memory = fsspec.filesystem("memory")
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("filler", os.urandom(5000))
        archive.writestr("word/document.xml", "<x/>")
    objects = {"r.v2": b"%PDF-1.7", "p.aspx": b"<!doctype html><p>x", "m": package.getvalue()}
    for name, data in (objects | {"z.zzz": b"zzz", "e": b""}).items():
        memory.pipe_file(f"/kinds/{name}", data)
    declaration = CloudStorageSource(type="cloud_storage", provider="memory", bucket="kinds")
    listing = enumerate_sources([make_source(declaration, Environment(Path(), {}))])
    assert list(listing.uris()) == [f"memory://kinds/{name}" for name in sorted(objects)]
    assert skipped_summary(listing.sources[0].skipped) == ".zzz 1, no extension 1"
    named = CloudStorageSource(
        type="cloud_storage", provider="memory", bucket="kinds", prefix="z.zzz"
    )
    assert len(enumerate_sources([make_source(named, Environment(Path(), {}))])) == 1


@pytest.mark.usefixtures("memory")
def test_a_prefix_is_no_folder() -> None:
    """A prefix may end within a name, and may be a whole name."""
    below = items(provider="memory", bucket="shelf", prefix="doc", pattern="*")
    assert list(below) == ["memory://shelf/document.md"]
    below = items(provider="memory", bucket="shelf", prefix="docs/a", pattern="*.md")
    assert list(below) == ["memory://shelf/docs/a.md"]
    below = items(provider="memory", bucket="shelf", prefix="docs/a.md")
    assert list(below) == ["memory://shelf/docs/a.md"]
    assert len(items(provider="memory", bucket="shelf")) == 5


@pytest.mark.parametrize(
    "place", [{"bucket": "shelf", "prefix": "none/"}, {"bucket": "nowhere"}, {"bucket": "shelf",
    "pattern": "*.pdf"}]
)  # fmt: skip
@pytest.mark.usefixtures("memory")
def test_nothing_there(place: dict[str, str]) -> None:
    """A missing bucket, and one without a matching object, are errors."""
    with pytest.raises(SourceError, match=rf"memory://{place['bucket']}"):
        items(provider="memory", **place)


def test_changes_are_seen(memory: Any) -> None:
    """Changes after the listing are read in their new state; a vanished object fails alone."""
    below = items(provider="memory", bucket="shelf", prefix="docs/x/")
    memory.pipe_file("/shelf/docs/x/b.md", b"new")
    memory.rm_file("/shelf/docs/x/y/c.md")
    assert content_of(below["memory://shelf/docs/x/b.md"]).data == b"new"
    with pytest.raises(SourceError, match=r"memory://shelf/docs/x/y/c\.md: cannot be read: File"):
        below["memory://shelf/docs/x/y/c.md"].read("")


def test_size_of_objects(memory: Any) -> None:
    """An object of the maximum size is read, as is an empty one; a larger one fails."""
    memory.pipe_file("/shelf/sizes/a", b"x" * 1024)
    memory.pipe_file("/shelf/sizes/b", b"x" * 1025)
    memory.pipe_file("/shelf/sizes/c", b"")
    a, b, c = items(provider="memory", bucket="shelf", prefix="sizes/", max_bytes=1024).values()
    assert (len(content_of(a).data), content_of(c).data) == (1024, b"")
    with pytest.raises(SourceError, match="sizes/b: is larger than 1 KiB"):
        b.read("")


def test_an_object_that_grows(memory: Any) -> None:
    """An object that is larger than when it was listed is not read to its end."""
    (item,) = items(provider="memory", bucket="shelf", prefix="docs/a.md", max_bytes=1024).values()
    memory.pipe_file("/shelf/docs/a.md", b"x" * 5000)
    with pytest.raises(SourceError, match="is larger than 1 KiB"):
        item.read("")


def test_a_folder(tmp_path: Path) -> None:
    """A folder can be used as a bucket; a relative path starts at the project folder."""
    (tmp_path / "shelf" / "docs").mkdir(parents=True)
    (tmp_path / "shelf" / "docs" / "a.md").write_bytes(b"a")
    (tmp_path / "shelf" / "b.md").write_bytes(b"b")
    files = items(tmp_path, provider="file", bucket="shelf", prefix="docs/")
    assert list(files) == ["file://shelf/docs/a.md"]
    assert content_of(files["file://shelf/docs/a.md"]).data == b"a"
    bucket = str(tmp_path / "shelf")
    assert list(items(provider="file", bucket=bucket, pattern="*.md")) == [f"file://{bucket}/b.md"]


def test_links_out_of_a_folder(tmp_path: Path) -> None:
    """Links that leave the folder are refused, and linked folders are not searched."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.md").write_bytes(b"secret")
    os.symlink(tmp_path / "outside" / "secret.md", shelf / "a.md")
    os.symlink(tmp_path / "outside", shelf / "linked")
    files = items(tmp_path, provider="file", bucket="shelf")
    assert list(files) == ["file://shelf/a.md"]
    with pytest.raises(SourceError, match="is a link to a location outside its bucket"):
        files["file://shelf/a.md"].read("")


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    """A missing folder, such as a disk that is not mounted, is an error."""
    with pytest.raises(SourceError, match="shelf does not exist"):
        items(tmp_path, provider="file", bucket="shelf")


def test_a_folder_has_no_settings(tmp_path: Path) -> None:
    """Settings without effect are refused."""
    with pytest.raises(SourceError, match="provider 'file' takes no config"):
        items(tmp_path, provider="file", bucket="shelf", config={"auto_mkdir": True})


def test_a_folder_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of the bucket that cannot be listed is reported, or fails a source that needs it."""
    write(tmp_path, "docs/a.md", "docs/shut/b.md", "other/c.md")
    shut(tmp_path / "docs" / "shut", monkeypatch)

    def listed(prefix: str) -> dict[str, str]:
        declaration = CloudStorageSource(
            type="cloud_storage",
            provider="file",
            bucket=str(tmp_path),
            prefix=prefix,
            pattern="**/*.md",
        )
        source = make_source(declaration, Environment(Path(), {}))
        return {
            item.uri.removeprefix(f"file://{tmp_path}/"): item.unlisted for item in source.items()
        }

    assert listed("docs/") == {"docs/a.md": "", "docs/shut/": "Permission denied"}
    assert listed("other/") == {"other/c.md": ""}
    with pytest.raises(SourceError, match="docs/shut/ cannot be listed: Permission denied"):
        listed("docs/shut/b")
