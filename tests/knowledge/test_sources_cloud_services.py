"""Buckets of S3, Google Cloud Storage and Azure, with their own clients and loopback servers."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lorebind_config.errors import SourceError
from lorebind_config.templates import Environment
from lorebind_knowledge.sources.base import Source, SourceItem
from lorebind_knowledge.sources.cloud_storage import CloudStorageSource
from lorebind_knowledge.sources.make import make_source

from .bench import Bench
from .cloud_servers import S3, Azure, CloudServer, Gcs
from .folders import content_of


@pytest.fixture(params=[S3, Gcs, Azure], ids=lambda kind: kind.provider)
def cloud(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, socket_enabled: None
) -> Iterator[CloudServer]:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "2")
    monkeypatch.setenv(
        "FETCH_RAW_TOKEN_EXPIRY", "off"
    )  # otherwise gcsfs asks Google about the token
    for package in request.param.needs:
        pytest.importorskip(package)
    server = request.param()
    yield server
    server.close()


def source(cloud: CloudServer, rest: str = "", **environ: str) -> Source:
    """Return a source declared in YAML, with more keys and other variables."""
    text = (
        f"{{ type: cloud_storage, provider: {cloud.provider}, config: {cloud.settings}, {rest} }}"
    )
    written = {"bucket": "shelf"} | yaml.safe_load(text)
    return make_source(
        CloudStorageSource.model_validate(written), Environment(Path(), cloud.environ | environ)
    )


def items(cloud: CloudServer, rest: str = "") -> dict[str, SourceItem]:
    """Return the objects that a source lists now, by their names in the bucket."""
    if rest not in cloud.sources:
        cloud.sources[rest] = source(cloud, rest)
    below = f"{cloud.scheme}://shelf/"
    return {item.uri.removeprefix(below): item for item in cloud.sources[rest].items()}


def fill(cloud: CloudServer, count: int) -> None:
    for number in range(count):
        cloud.put(f"docs/{number}.md", f"# Page {number}\n\nThe word of it is w{number}.".encode())


def test_prefixes(cloud: CloudServer) -> None:
    """All objects that start with the prefix are listed, without folders, whatever their names."""
    odd = "docs/d#1?x=2 ü%41 & c.md"
    for name in ("docs/a.md", odd, "docs/sub/e.md", "docs/f.txt", "docs2", "document.md", "x"):
        cloud.put(name, name.encode())
    cloud.put("docs/", b"")
    cloud.put("docs/empty.md", b"")
    below = {"docs/a.md", odd, "docs/sub/e.md", "docs/empty.md"}
    assert set(items(cloud)) == below | {"docs/f.txt", "docs2", "document.md", "x"}
    assert set(items(cloud, "prefix: docs/, pattern: '**/*.md'")) == below
    assert set(items(cloud, "prefix: doc, pattern: '*'")) == {"docs2", "document.md"}
    assert set(items(cloud, "prefix: docs/a.md")) == {"docs/a.md"}
    listed = items(cloud, "prefix: docs/")
    assert content_of(listed[odd]).data == odd.encode()
    assert content_of(listed["docs/empty.md"]).data == b""


def test_pages(cloud: CloudServer) -> None:
    """A listing of many pages is read to its end without reading any object."""
    fill(cloud, 9)
    assert len(items(cloud)) == 9
    assert cloud.pages == 5
    assert list(items(cloud, "prefix: docs/3")) == ["docs/3.md"]
    assert cloud.pages == 6  # the prefix is sent to the service
    assert not cloud.sent


def test_a_page_that_fails(cloud: CloudServer) -> None:
    """A listing that fails after its first page fails as a whole."""
    fill(cloud, 9)
    cloud.breaks("Token=", "-token=", "marker=2")  # these request another page
    with pytest.raises(SourceError, match=rf"{cloud.scheme}://shelf cannot be listed: "):
        items(cloud)


def test_versions(cloud: CloudServer) -> None:
    """An object is read again if its version differs from that of the last read."""
    fill(cloud, 2)
    first = content_of(items(cloud)["docs/0.md"])
    assert first.version
    assert items(cloud)["docs/0.md"].read(first.version) is None
    assert cloud.sent == ["docs/0.md"]
    cloud.put("docs/0.md", b"changed")
    second = content_of(items(cloud)["docs/0.md"], first.version)
    assert (second.data, second.version == first.version) == (b"changed", False)


def test_a_change_after_the_listing(cloud: CloudServer) -> None:
    """An object that changed after it was listed has no version."""
    fill(cloud, 2)
    listed = items(cloud)
    cloud.put("docs/0.md", b"changed")
    cloud.remove("docs/1.md")
    content = content_of(listed["docs/0.md"])
    assert (content.data, content.version) == (b"changed", "")
    with pytest.raises(SourceError, match=rf"{cloud.scheme}://shelf/docs/1\.md: cannot be read"):
        listed["docs/1.md"].read("")


def test_sizes(cloud: CloudServer) -> None:
    """An object above the limit is not requested; one that has grown is not read to its end."""
    cloud.put("a.md", b"x" * 1024)
    cloud.put("b.md", b"x" * 1025)
    cloud.put("c.md", b"x")
    listed = items(cloud, "max_bytes: 1024")
    cloud.put("c.md", b"x" * 5000)
    assert len(content_of(listed["a.md"]).data) == 1024
    for name in ("b.md", "c.md"):
        with pytest.raises(SourceError, match=rf"/{name}: is larger than 1 KiB"):
            listed[name].read("")
    assert cloud.sent == ["a.md", "c.md"]


def test_a_bucket_that_is_not_there(cloud: CloudServer) -> None:
    """A missing bucket has a different error from one in which nothing matches."""
    with pytest.raises(SourceError, match="://nowhere cannot be listed: the bucket does not exist"):
        list(source(cloud, "bucket: nowhere").items())
    with pytest.raises(SourceError, match=r"no object of \w+://shelf/none/ matches \*\*"):
        list(source(cloud, "prefix: none/").items())


def test_wrong_credentials(cloud: CloudServer) -> None:
    """When access is denied, the error names the source and its settings, without secrets."""
    fill(cloud, 1)
    wrong = {"KEY": "other-id", "SECRET": "hidden%2Fwrong"}
    with pytest.raises(SourceError) as caught:
        list(source(cloud, **wrong).items())
    message = str(caught.value)
    assert message.startswith(f"{cloud.scheme}://shelf cannot be listed: ")
    assert "check the credentials in the source's config: " in message
    assert "{{ ." in message
    assert "hidden" not in message
    assert "other-id" not in message


def test_an_outage_while_objects_are_read(cloud: CloudServer) -> None:
    """After several failures in a row, reading stops; denied and missing objects do not count."""
    fill(cloud, 6)
    listed = items(cloud)
    cloud.breaks("docs")
    for name in list(listed)[:3]:
        with pytest.raises(SourceError, match="cannot be read: "):
            listed[name].read("")
    before = len(cloud.web.requests)
    with pytest.raises(
        SourceError, match=r"docs/3\.md: not tried, because previous reads failed: "
    ):
        listed["docs/3.md"].read("")
    assert len(cloud.web.requests) == before
    cloud.mend()
    assert content_of(items(cloud)["docs/3.md"]).data
    listed = items(cloud)
    for name in list(listed)[:4]:
        cloud.remove(name)
        with pytest.raises(SourceError, match="cannot be read: "):
            listed[name].read("")
    assert content_of(listed["docs/4.md"]).data


def test_the_end_of_a_source(cloud: CloudServer) -> None:
    """A source that is discarded in an event loop closes its connections without warnings."""
    fill(cloud, 2)
    complaints: list[Any] = []
    gc.collect()  # objects of other tests would emit warnings in our loop
    gc.freeze()  # to scan the clients' libraries again takes a third of a second each time

    async def use() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, info: complaints.append(info))
        listed = await asyncio.to_thread(list, source(cloud).items())
        await asyncio.to_thread(listed[0].read, "")
        del listed
        gc.collect()
        await asyncio.sleep(0)
        gc.collect()

    asyncio.run(use())
    assert not complaints


async def test_ingest(cloud: CloudServer, make_bench: Callable[[str], Bench]) -> None:
    """Unchanged objects are not sent again; an outage deletes nothing; removed ones are deleted."""
    bench = make_bench("sqlite")
    fill(cloud, 4)
    bench.change(sources=[source(cloud, "prefix: docs/")])
    assert (await bench.ingest()).documents["added"] == 4
    assert sorted(cloud.sent) == [f"docs/{number}.md" for number in range(4)]

    cloud.sent.clear()
    sent = len(cloud.web.requests)
    assert (await bench.ingest()).documents["unchanged"] == 4
    assert not cloud.sent
    assert {call.method for call in cloud.web.requests[sent:]} == {"GET"}  # requests of the listing
    cloud.put("docs/1.md", b"# Page 1\n\nAnother word.")
    report = await bench.ingest()
    assert (report.documents["updated"], report.documents["unchanged"]) == (1, 3)
    assert cloud.sent == ["docs/1.md"]

    before = await bench.visible()
    cloud.put("docs/2.md", b"# Page 2\n\nNever seen.")
    cloud.breaks("2.md")
    report = await bench.ingest()
    assert (report.documents["failed"], report.documents["removed"]) == (1, 0)
    cloud.breaks("shelf")
    report = await bench.ingest()
    assert (report.sources[0].status, report.documents["removed"]) == ("failed", 0)
    assert await bench.visible() == before

    cloud.mend()
    cloud.remove("docs/0.md")
    report = await bench.ingest()
    assert (report.documents["updated"], report.documents["removed"]) == (1, 1)
