"""Objects of buckets: in memory, in a folder, and in an S3 that is a small server of its own."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import fsspec
import pytest

from lorebind_knowledge.configuration.environment import Environment
from lorebind_knowledge.declarations.sources import CloudStorageSource
from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.sources.base import Content
from lorebind_knowledge.sources.registry import make_source

from .web_server import Answer, Asked, WebServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_knowledge.sources.base import SourceItem

ENVIRON = {"S3_KEY": "key-id", "S3_SECRET": "hidden-secret"}


def items(root: Path = Path(), **declared: Any) -> dict[str, SourceItem]:
    declaration = CloudStorageSource(type="cloud_storage", **declared)
    listed = list(make_source(declaration, Environment(root, ENVIRON)).items())
    assert [item.uri for item in listed] == sorted(item.uri for item in listed)
    return {item.uri: item for item in listed}


def read(item: SourceItem, version: str = "") -> Content:
    content = item.read(version)
    assert isinstance(content, Content)
    return content


@pytest.fixture
def memory() -> Iterator[Any]:
    """The objects in memory, of which there is one set for the whole process."""
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
    """Listed is what begins with the prefix and matches the pattern, of this bucket alone."""
    found = items(provider="memory", bucket="shelf", prefix="docs/", pattern="**/*.md")
    names = ["docs/a.md", "docs/x/b.md", "docs/x/y/c.md"]
    assert list(found) == [f"memory://shelf/{name}" for name in names]
    assert read(found["memory://shelf/docs/x/b.md"]).data == b"docs/x/b.md"
    found = items(provider="memory", bucket="shelf", prefix="docs/", pattern="*.{md,txt}")
    assert list(found) == ["memory://shelf/docs/a.md", "memory://shelf/docs/d.txt"]


@pytest.mark.usefixtures("memory")
def test_a_prefix_is_no_folder() -> None:
    """A prefix may end within a name, and may be a whole one."""
    found = items(provider="memory", bucket="shelf", prefix="doc", pattern="*")
    assert list(found) == ["memory://shelf/document.md"]
    found = items(provider="memory", bucket="shelf", prefix="docs/a.md")
    assert list(found) == ["memory://shelf/docs/a.md"]
    assert len(items(provider="memory", bucket="shelf")) == 5


@pytest.mark.parametrize(
    "place", [{"bucket": "shelf", "prefix": "none/"}, {"bucket": "nowhere"}, {"bucket": "shelf",
    "pattern": "*.pdf"}]
)  # fmt: skip
@pytest.mark.usefixtures("memory")
def test_nothing_there(place: dict[str, str]) -> None:
    """A bucket that is not there, and one without a fitting object, are errors."""
    with pytest.raises(SourceError, match=rf"memory://{place['bucket']}"):
        items(provider="memory", **place)


def test_changes_are_seen(memory: Any) -> None:
    """What changes after the listing is read as it is then; what vanishes fails alone."""
    found = items(provider="memory", bucket="shelf", prefix="docs/x/")
    memory.pipe_file("/shelf/docs/x/b.md", b"new")
    memory.rm_file("/shelf/docs/x/y/c.md")
    assert read(found["memory://shelf/docs/x/b.md"]).data == b"new"
    with pytest.raises(SourceError, match=r"memory://shelf/docs/x/y/c\.md: cannot be read: File"):
        found["memory://shelf/docs/x/y/c.md"].read("")


def test_size_of_objects(memory: Any) -> None:
    """An object of the largest size is read, an empty one too; a larger one fails."""
    memory.pipe_file("/shelf/sizes/a", b"x" * 1024)
    memory.pipe_file("/shelf/sizes/b", b"x" * 1025)
    memory.pipe_file("/shelf/sizes/c", b"")
    a, b, c = items(provider="memory", bucket="shelf", prefix="sizes/", max_bytes=1024).values()
    assert (len(read(a).data), read(c).data) == (1024, b"")
    with pytest.raises(SourceError, match="sizes/b: is larger than 1 KiB"):
        b.read("")


def test_an_object_that_grows(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object that is found to be larger than its size said is not read to its end."""
    (item,) = items(provider="memory", bucket="shelf", prefix="docs/a.md", max_bytes=1024).values()
    memory.pipe_file("/shelf/docs/a.md", b"x" * 5000)
    small = {"size": 10, "type": "file"}
    monkeypatch.setattr(type(memory), "info", lambda self, path: small)
    with pytest.raises(SourceError, match="is larger than 1 KiB"):
        item.read("")


def test_a_folder(tmp_path: Path) -> None:
    """A folder stands for a bucket; where it is relative, it is seen from the project folder."""
    (tmp_path / "shelf" / "docs").mkdir(parents=True)
    (tmp_path / "shelf" / "docs" / "a.md").write_bytes(b"a")
    (tmp_path / "shelf" / "b.md").write_bytes(b"b")
    found = items(tmp_path, provider="file", bucket="shelf", prefix="docs/")
    assert list(found) == ["file://shelf/docs/a.md"]
    assert read(found["file://shelf/docs/a.md"]).data == b"a"
    bucket = str(tmp_path / "shelf")
    assert list(items(provider="file", bucket=bucket, pattern="*.md")) == [f"file://{bucket}/b.md"]


def test_links_out_of_a_folder(tmp_path: Path) -> None:
    """What a link reaches outside of the folder is refused, and linked folders are not searched."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.md").write_bytes(b"secret")
    os.symlink(tmp_path / "outside" / "secret.md", shelf / "a.md")
    os.symlink(tmp_path / "outside", shelf / "linked")
    found = items(tmp_path, provider="file", bucket="shelf")
    assert list(found) == ["file://shelf/a.md"]
    with pytest.raises(SourceError, match="is a link to a place outside its bucket"):
        found["file://shelf/a.md"].read("")


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    """A folder that is not there, as a disk that is not mounted, is an error."""
    with pytest.raises(SourceError, match="shelf is not there"):
        items(tmp_path, provider="file", bucket="shelf")


def test_a_folder_has_no_settings(tmp_path: Path) -> None:
    """Settings that would change nothing are refused."""
    with pytest.raises(SourceError, match="provider 'file' takes no config"):
        items(tmp_path, provider="file", bucket="shelf", config={"auto_mkdir": True})


class _S3:
    """As much of S3 as listing and reading need: ListObjectsV2, HEAD, and GET with ranges."""

    def __init__(self, server: WebServer) -> None:
        self.objects: dict[str, bytes] = {}
        self.reads = 0
        self._server = server
        server.otherwise = self._answer

    def items(self, **declared: Any) -> dict[str, SourceItem]:
        config = {
            "endpoint_url": self._server.url(""),
            "key": "{{ .env.S3_KEY }}",
            "secret": "{{ .secrets.S3_SECRET }}",
        }
        return items(provider="s3", bucket="shelf", config=config, **declared)

    def _answer(self, asked: Asked) -> Answer:
        assert "Credential=key-id/" in asked.headers["authorization"]
        target = urlsplit(asked.target)
        bucket, _, key = unquote(target.path).lstrip("/").partition("/")
        if bucket != "shelf":
            return Answer(b"<Error><Code>NoSuchBucket</Code></Error>", status=404)
        if not key:
            return self._listing(parse_qs(target.query).get("prefix", [""])[0])
        if key not in self.objects:
            return Answer(b"<Error><Code>NoSuchKey</Code></Error>", status=404)
        data = self.objects[key]
        tags = {"ETag": f'"{hashlib.md5(data).hexdigest()}"'}
        if asked.method == "HEAD":
            return Answer(data, tags)
        self.reads += 1
        start, end = asked.headers["range"].removeprefix("bytes=").split("-")
        part = data[int(start) : int(end) + 1]
        sizes = f"bytes {start}-{int(start) + len(part) - 1}/{len(data)}"
        return Answer(part, tags | {"Content-Range": sizes}, 206)

    def _listing(self, prefix: str) -> Answer:
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(data)}</Size></Contents>"
            for key, data in self.objects.items()
            if key.startswith(prefix)
        )
        return Answer(f"<ListBucketResult>{entries}</ListBucketResult>".encode())


@pytest.fixture
def s3(socket_enabled: None) -> Iterator[_S3]:
    pytest.importorskip("s3fs")
    server = WebServer()
    yield _S3(server)
    server.close()


def test_s3(s3: _S3) -> None:
    """Objects of S3 are listed and read, and not sent again while their ETag is the same."""
    s3.objects = {
        "docs/b & c.md": b"b",
        "docs/a.md": b"a",
        "docs/": b"",
        "docs/d.txt": b"d",
        "documents.md": b"x",
    }
    found = s3.items(prefix="docs/", pattern="*.md")
    assert list(found) == ["s3://shelf/docs/a.md", "s3://shelf/docs/b & c.md"]
    item = found["s3://shelf/docs/b & c.md"]
    first = read(item)
    assert first.data == b"b"
    assert item.read(first.version) is None
    assert s3.reads == 1
    s3.objects["docs/b & c.md"] = b"changed"
    second = read(item, first.version)
    assert second.data == b"changed"
    assert second.version != first.version


def test_s3_that_refuses(s3: _S3) -> None:
    """What S3 says of a failure is told with the object, and without the key it was given."""
    s3.objects = {"a.md": b"a", "b.md": b"b" * 2000}
    found = s3.items(max_bytes=1024)
    del s3.objects["a.md"]
    with pytest.raises(SourceError, match=r"s3://shelf/a\.md: cannot be read: FileNotFoundError"):
        found["s3://shelf/a.md"].read("")
    with pytest.raises(SourceError, match=r"s3://shelf/b\.md: is larger than 1 KiB"):
        found["s3://shelf/b.md"].read("")
    denial = b"<Error><Code>AccessDenied</Code><Message>hidden-secret?</Message></Error>"
    s3._server.otherwise = Answer(denial, status=403)
    with pytest.raises(SourceError, match=r"s3://shelf cannot be listed: .*\[secret\]\?") as caught:
        s3.items()
    assert "hidden-secret" not in str(caught.value)
