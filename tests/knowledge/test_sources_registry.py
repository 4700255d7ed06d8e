"""From declarations to sources: templates, keys, and sources that cannot be made."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document
from pydantic import TypeAdapter

from lorebind_bindings import ingest_scope
from lorebind_config.declarations.sources import SourceDeclaration
from lorebind_config.errors import SourceError
from lorebind_config.reading.loading import load_project
from lorebind_config.templates import Environment
from lorebind_knowledge.ingest.corpus import enumerate_sources
from lorebind_knowledge.ingest.report import SourceReport
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.sources.base import Content, Source, SourceItem
from lorebind_knowledge.sources.make import RedactingSource, SourceEnvironment, make_source

from .web_server import Answer, WebServer

ENVIRON = {"HOST": "example.com", "TOKEN": "hidden", "EMPTY": ""}


class Teller(BaseLoader):
    """A loader that reveals its settings in the documents and errors."""

    def __init__(self, place: str, *, fails: bool) -> None:
        self.place, self.fails = place, fails

    def lazy_load(self) -> Iterator[Document]:
        if self.fails:
            raise ConnectionError(f"{self.place}: refused")
        metadata = {"source": f"{self.place}/a", "by": self.place.rpartition("/")[2]}
        yield Document(page_content="text", metadata=metadata)


def make(
    root: Path,
    workflow: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] = ENVIRON,
    **declared: Any,
) -> Source:
    declaration: SourceDeclaration = TypeAdapter(SourceDeclaration).validate_python(declared)
    return make_source(declaration, Environment(root, environ), workflow=workflow)


def uris(source: Source) -> list[str]:
    return [item.uri for item in source.items() if not item.skipped]


async def read(item: SourceItem, version: str = "") -> Content:
    content = await call(item.read, version)
    assert isinstance(content, Content)
    return content


class Broken:
    """A source of a plugin with a bug."""

    key = "broken:a"

    def items(self) -> list[SourceItem]:
        raise ValueError("no luck")


def test_a_source_with_a_bug(tmp_path: Path) -> None:
    """The reason for a failed source does not repeat its name, which reports show before it."""
    declaration: SourceDeclaration = TypeAdapter(SourceDeclaration).validate_python(
        {"type": "inline", "documents": [{"id": "a", "text": "b"}]}
    )
    environment = SourceEnvironment(Environment(tmp_path, {}), "broken:a", None)
    source = RedactingSource(Broken(), declaration, environment)
    assert enumerate_sources([source]).sources == [
        SourceReport("broken:a", "failed", 0, "cannot be listed: ValueError: no luck")
    ]


# Addresses.


def test_addresses(tmp_path: Path) -> None:
    """Every address is a document, whose uri has query and templates, not password or fragment."""
    source = make(
        tmp_path,
        type="url",
        url="https://{{ .env.HOST }}/a?v=1#part",
        urls=["http://user:pass@h/b", "https://{{ .workflow.input.host }}/{{ .input.page }}"],
        workflow={"input": {"host": "w.example", "page": 3}},
    )
    assert uris(source) == [
        "https://{{ .env.HOST }}/a?v=1",
        "http://h/b",
        "https://w.example/3",
    ]
    assert source.key == (
        "url:https://{{ .env.HOST }}/a?v=1,http://h/b,"
        "https://{{ .workflow.input.host }}/{{ .input.page }}"
    )


async def test_secrets_in_addresses(tmp_path: Path, server: WebServer) -> None:
    """A secret in an address is sent, but appears neither in the uri nor in a message."""
    server.routes["/hidden/a?key=hidden"] = Answer(b"text")
    place = server.url("/{{ .secrets.TOKEN }}/")
    source = make(
        tmp_path,
        type="url",
        urls=[f"{place}a?key={{{{ .secrets.TOKEN }}}}", f"{place}b"],
        fetch={"allow": ["127.0.0.1"]},
    )
    first, second = source.items()
    assert first.uri == server.url("/{{ .secrets.TOKEN }}/a?key={{ .secrets.TOKEN }}")
    assert (await read(first)).data == b"text"
    with pytest.raises(SourceError) as caught:
        await read(second)
    assert str(caught.value) == f"{server.url('/{{ .secrets.TOKEN }}/b')}: returned 404 Not Found"


def test_uris_are_the_documents_own(tmp_path: Path) -> None:
    """Addresses with different variables have different uris, which do not depend on the values."""
    urls = ["https://h/{{ .secrets.TOKEN }}/x", "https://h/{{.secrets.OTHER}}/x", "{{ .env.WIKI }}"]
    environ = {"TOKEN": "hidden", "OTHER": "hidden", "WIKI": "https://me:hidden@h/?q=hidden#x"}
    expected = [
        "https://h/{{ .secrets.TOKEN }}/x",
        "https://h/{{ .secrets.OTHER }}/x",
        "{{ .env.WIKI }}",
    ]
    for values in (environ, dict.fromkeys(environ, "https://rotated")):
        assert uris(make(tmp_path, environ=values, type="url", urls=urls)) == expected


async def test_variables_of_a_workflow(tmp_path: Path, server: WebServer) -> None:
    """A workflow's variable with a value from the environment is hidden too."""
    yaml = """
        name: flows
        embedders: [{ id: words, provider: hashing }]
        workflows:
          - id: flow
            vars: { place: ["{{ .env.PLACE }}/{{ .secrets.TOKEN }}"], plain: "pages" }
            tasks: [{ id: say, prompt: hello }]
    """
    (tmp_path / "lorebind.yaml").write_text(dedent(yaml))
    loaded = load_project(tmp_path, environ={"PLACE": server.url(""), "TOKEN": "hidden/1"})
    scope = ingest_scope(loaded, "flow", {})
    declared: SourceDeclaration = TypeAdapter(SourceDeclaration).validate_python(
        {
            "type": "url",
            "url": "{{ .workflow.vars.place.0 }}/{{ .workflow.vars.plain }}",
            "fetch": {"allow": ["127.0.0.1"]},
        }
    )
    (item,) = make_source(declared, loaded.environment, workflow=scope).items()
    assert item.uri == "{{ .env.PLACE }}/{{ .secrets.TOKEN }}/pages"
    with pytest.raises(SourceError) as caught:
        await read(item)
    assert str(caught.value) == f"{item.uri}: returned 404 Not Found"
    assert server.requests[0].target == "/hidden/1/pages"


async def test_buckets_by_variables(tmp_path: Path) -> None:
    """Uris show bucket and prefix as declared, and the rest of a name as it is."""
    (tmp_path / "hidden" / "docs").mkdir(parents=True)
    (tmp_path / "hidden" / "docs" / "a.md").write_bytes(b"text")
    declared = {"type": "cloud_storage", "provider": "file", "bucket": "{{ .env.TOKEN }}"}
    environ = {"TOKEN": "hidden", "TEAM": "docs"}
    source = make(tmp_path, environ=environ, **declared, prefix="{{ .env.TEAM }}/")
    (item,) = source.items()
    assert item.uri == "file://{{ .env.TOKEN }}/{{ .env.TEAM }}/a.md"
    assert (await read(item)).data == b"text"
    for environ in ({"TOKEN": "hidden", "TEAM": "gone"}, {"TOKEN": "gone", "TEAM": "docs"}):
        source = make(tmp_path, environ=environ, **declared, prefix="{{ .env.TEAM }}/")
        with pytest.raises(SourceError, match=r"{{ \.env\.") as caught:
            list(source.items())
        assert "gone" not in str(caught.value)


async def test_loaders_that_tell(tmp_path: Path) -> None:
    """If a loader reveals its settings, their templates are shown instead of the values."""
    place = f"{Teller.__module__}:{Teller.__name__}"
    config: dict[str, Any] = {"place": "https://h/{{ .env.TOKEN }}", "fails": False}
    (item,) = make(tmp_path, **{"type": "langchain", "class": place, "config": config}).items()
    assert item.uri == "https://h/{{ .env.TOKEN }}/a"
    metadata = (await read(item)).metadata
    assert metadata == {"source": "https://h/{{ .env.TOKEN }}/a", "by": "{{ .env.TOKEN }}"}
    config["fails"] = True
    source = make(tmp_path, **{"type": "langchain", "class": place, "config": config})
    with pytest.raises(SourceError, match="ConnectionError") as caught:
        list(source.items())
    assert "hidden" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_video_by_a_variable(tmp_path: Path) -> None:
    """The address of a video's page is shown with its template."""
    declared = {"type": "media_transcript", "provider": "youtube", "video_id": "{{ .env.TOKEN }}"}
    (item,) = make(tmp_path, **declared).items()
    assert item.uri == "https://www.youtube.com/watch?v={{ .env.TOKEN }}"
    wrong = make(tmp_path, environ={"TOKEN": "not/" + "hidden" * 20}, **declared)
    with pytest.raises(SourceError, match=r"{{ \.env\.TOKEN }}' is not a video id"):
        list(wrong.items())


async def test_what_is_declared_of_fetching(tmp_path: Path, server: WebServer) -> None:
    """Limits, headers and allowed hosts reach the fetcher; private hosts are refused by default."""
    server.routes["/"] = [Answer(b"x" * 11), Answer(b"x", {"ETag": '"1"'}), Answer(status=304)]
    plain: dict[str, Any] = {"type": "url", "url": server.url(), "max_bytes": 10}
    (item,) = make(tmp_path, **plain).items()
    with pytest.raises(SourceError, match="not at a public address"):
        await read(item)
    fetch = {"allow": ["127.0.0.1"], "headers": {"Authorization": "Bearer {{ .secrets.TOKEN }}"}}
    (item,) = make(tmp_path, **plain, fetch=fetch).items()
    with pytest.raises(SourceError, match="is larger than 10 bytes"):
        await read(item)
    version = (await read(item)).version
    assert await call(item.read, version) is None
    assert server.requests[0].headers["authorization"] == "Bearer hidden"


async def test_a_document_has_a_single_limit(tmp_path: Path, server: WebServer) -> None:
    """Fetching and checking agree on whether a page may be as large as a PDF."""
    server.routes["/a.pdf?page=1"] = Answer(b"x" * 11)
    server.routes["/a"] = Answer(status=302, headers={"Location": "/b.pdf"})
    server.routes["/b.pdf"] = Answer(b"x" * 11)
    declared = {"max_bytes": 10, "max_scan_bytes": 11, "fetch": {"allow": ["127.0.0.1"]}}
    urls = [server.url("/a.pdf?page=1"), server.url("/a")]
    pdf, page = make(tmp_path, type="url", urls=urls, **declared).items()
    assert len((await read(pdf)).data) == 11
    with pytest.raises(SourceError, match=r"10 bytes; the limit is max_bytes of its source"):
        await read(page)


def test_wrong_addresses_fail_alone(tmp_path: Path) -> None:
    """An address that a template made invalid does not keep others from being listed."""
    source = make(tmp_path, type="url", urls=["ftp://{{ .env.HOST }}/", "https://{{ .env.HOST }}/"])
    assert len(uris(source)) == 2


# Templates without a value.


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        (
            {"type": "url", "url": "https://{{ .env.GONE }}/"},
            "source 'url': variable GONE is not set; set it",
        ),
        (
            {"type": "url", "url": "https://{{ .workflow.input.host }}/"},
            "url: {{ .workflow.input.host }} is not defined: there is no scope 'workflow' here",
        ),
        ({"type": "url", "url": "{{ .env.EMPTY }}"}, "url: {{ .env.EMPTY }} is empty"),
        (
            {"type": "cloud_storage", "provider": "memory", "bucket": "{{ .env.EMPTY }}"},
            "bucket: {{ .env.EMPTY }} is empty; expected text",
        ),
        (
            {"type": "url", "url": "https://h/", "fetch": {"headers": {"X": "{{ .env.GONE }}"}}},
            "source 'url': variable GONE is not set",
        ),
        (
            {"type": "url", "url": "https://h/", "fetch": {"allow": ["a b"]}},
            "'a b' under 'allow' is not a host name",
        ),
        (
            {"type": "media_transcript", "provider": "youtube", "video_id": "{{ .env.GONE }}"},
            "source 'media_transcript': variable GONE is not set",
        ),
        (
            {"type": "langchain", "class": "nowhere:X", "config": {"a": ["{{ .env.GONE }}"]}},
            "source 'langchain': variable GONE is not set",
        ),
        ({"type": "langchain", "class": "nowhere:X"}, "'nowhere:X' cannot be imported"),
        ({"type": "langchain", "class": "yaml:dump"}, "yaml:dump is a function of yaml; expected"),
    ],
)
def test_sources_that_cannot_be_made(tmp_path: Path, declared: dict[str, Any], says: str) -> None:
    """Sources that cannot be made exist under their key, and fail when they are listed."""
    source = make(tmp_path, **declared)
    assert source.key.startswith(f"{declared['type']}:")
    with pytest.raises(SourceError) as caught:
        list(source.items())
    assert says in str(caught.value)


def test_templates_of_other_kinds(tmp_path: Path) -> None:
    """A template whose value is a list is refused where text is expected."""
    workflow = {"input": {"pages": ["a", "b"]}}
    source = make(tmp_path, workflow, type="url", url="{{ .workflow.input.pages }}")
    with pytest.raises(SourceError, match="expected text, got a value of type list"):
        list(source.items())


def test_the_key_of_a_source_that_failed(tmp_path: Path) -> None:
    """A source that cannot be made has the same key, so its ingested documents stay its own."""
    declared = {"type": "url", "url": "https://{{ .workflow.input.host }}/"}
    working = make(tmp_path, {"input": {"host": "h"}}, **declared)
    assert uris(working) == ["https://h/"]
    assert working.key == make(tmp_path, {"input": {}}, **declared).key


def test_long_keys(tmp_path: Path) -> None:
    """The key of a source with very many addresses is short, and still unique."""
    many = [f"https://example.com/{number}" for number in range(999)]
    keys = {make(tmp_path, type="url", urls=many[: 999 - n]).key for n in range(3)}
    assert len(keys) == 3
    assert max(map(len, keys)) <= 200


def test_keys_tell_settings_apart(tmp_path: Path) -> None:
    """Two sources of one type with different settings have two keys, which contain no settings."""
    config = [{}, {"path": "a"}, {"path": "b"}]
    kinds = [{"type": "langchain", "class": "a:B"}]
    kinds += [{"type": "cloud_storage", "provider": "s3", "bucket": "b"}]
    for kind in kinds:
        assert len({make(tmp_path, **kind, config=each).key for each in config}) == 3


@pytest.mark.parametrize(
    ("module", "extra", "declared"),
    [
        ("fsspec", "cloud", {"type": "cloud_storage", "provider": "memory", "bucket": "b"}),
        ("s3fs", "cloud", {"type": "cloud_storage", "provider": "s3", "bucket": "b"}),
        (
            "youtube_transcript_api",
            "youtube",
            {"type": "media_transcript", "provider": "youtube", "video_id": "abc"},
        ),
    ],
)
def test_extras(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    extra: str,
    declared: dict[str, Any],
) -> None:
    """A source whose extra is not installed fails with the command to install it."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SourceError, match=rf"pip install 'lorebind\[{extra}\]'"):
        list(make(tmp_path, **declared).items())


# The other types.


async def test_files(tmp_path: Path) -> None:
    """Files are found below the project folder, up to the declared size."""
    (tmp_path / "a.md").write_bytes(b"12345")
    (tmp_path / "b.md").write_bytes(b"123456")
    for kind in ("markdown_glob", "file_glob"):
        source = make(tmp_path, type=kind, path="*.md", paths=["*.txt"], max_bytes=5)
        assert source.key == f"{kind}:*.md,*.txt"
        first, second = source.items()
        assert (await read(first)).data == b"12345"
        with pytest.raises(SourceError, match="is larger than 5 bytes"):
            await read(second)


async def test_inline(tmp_path: Path) -> None:
    """Inline documents are named by their ids, whose extensions decide the format."""
    documents = [
        {"id": "refunds", "text": "Straße", "metadata": {"tags": ["a"]}},
        {"id": "faq.md", "text": "# FAQ"},
        {"id": "table.CSV", "text": "x" * 9},
    ]
    source = make(tmp_path, type="inline", documents=documents, max_bytes=8)
    assert source.key == "inline"
    assert uris(source) == ["inline:refunds", "inline:faq.md", "inline:table.CSV"]
    first, second, third = source.items()
    content = await read(first)
    assert (content.data, content.media_type) == ("Straße".encode(), "text/plain")
    assert content.metadata == {"tags": ["a"]}
    assert (await read(second)).media_type == "text/markdown"
    with pytest.raises(SourceError, match=r"inline:table\.CSV: is larger than 8 bytes"):
        await read(third)


def test_inline_ids(tmp_path: Path) -> None:
    """Two inline documents with one id are refused where they are declared."""
    documents = [{"id": "a", "text": "1"}, {"id": "a", "text": "2"}]
    with pytest.raises(ValueError, match="inline document id 'a' is used twice"):
        make(tmp_path, type="inline", documents=documents)


async def test_transcripts(tmp_path: Path, server: WebServer) -> None:
    """A source may list files, addresses and a video; files with other extensions are skipped."""
    (tmp_path / "talks").mkdir()
    for name in ("a.vtt", "b.SRT", "c.mp4"):
        (tmp_path / "talks" / name).write_bytes(name.encode())
    server.routes["/d.vtt"] = Answer(b"WEBVTT", {"Content-Type": "text/vtt"})
    declared: dict[str, Any] = {
        "type": "media_transcript",
        "path": "talks/*",
        "url": server.url("/d.vtt"),
        "provider": "youtube",
        "video_id": "{{ .workflow.input.video }}",
        "fetch": {"allow": ["127.0.0.1"]},
    }
    source = make(tmp_path, {"input": {"video": "abc"}}, **declared)
    address, watch = server.url("/d.vtt"), "https://www.youtube.com/watch?v=abc"
    assert uris(source) == ["talks/a.vtt", "talks/b.SRT", address, watch]
    listed = [item for item in source.items() if not item.skipped]
    contents = [await read(item) for item in listed[:3]]
    assert [content.data for content in contents] == [b"a.vtt", b"b.SRT", b"WEBVTT"]
    assert source.key == (
        f"media_transcript:talks/*,{address},youtube {{{{ .workflow.input.video }}}}"
    )


def test_transcripts_that_are_partly_gone(tmp_path: Path) -> None:
    """If the files are missing, the source lists nothing, so nothing is deleted."""
    source = make(tmp_path, type="media_transcript", path="*.vtt", url="https://example.com/")
    with pytest.raises(SourceError, match=r"no \.vtt or \.srt file in .* matches"):
        list(source.items())
