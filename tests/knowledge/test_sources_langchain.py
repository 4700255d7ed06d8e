"""LangChain document loaders as a source."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document

from lorebind_config.errors import SourceError
from lorebind_knowledge.sources import langchain as langchain_module
from lorebind_knowledge.sources.base import Content, SourceItem
from lorebind_knowledge.sources.langchain import LangChainDocuments
from tests.processes import run_program


class Loader(BaseLoader):
    """A loader that returns the given documents, and then fails if told to."""

    def __init__(self, documents: list[Any], failure: Exception | None = None) -> None:
        self._documents = documents
        self._failure = failure

    def lazy_load(self) -> Iterator[Document]:
        yield from self._documents
        if self._failure:
            raise self._failure


class Keyed(BaseLoader):
    """A loader that quotes its key in an error when it is made, as some loaders do."""

    def __init__(self, api_key: str) -> None:
        raise ValueError(f"the key {api_key} is not valid")


class Endless(BaseLoader):
    """A loader that never ends."""

    def lazy_load(self) -> Iterator[Document]:
        while True:
            yield page("")


def source(name: str = "Loader", *, max_bytes: int = 1024, **settings: Any) -> LangChainDocuments:
    kind = globals()[name]
    return LangChainDocuments(
        "key", f"{__name__}:{name}", kind, written=settings, settings=settings, max_bytes=max_bytes
    )


def page(text: str, **metadata: Any) -> Document:
    return Document(page_content=text, metadata=metadata)


def listed(*documents: Any, **more: Any) -> list[SourceItem]:
    return list(source(documents=list(documents), **more).items())


def read(item: SourceItem) -> Content:
    content = item.read("")
    assert isinstance(content, Content)
    return content


def test_documents() -> None:
    """Each document is one item, with its text and the plain part of its metadata."""
    there = {"page": 2, "draft": False, "score": 0.5, "lang": "en", "tags": ["a", 1]}
    odd = {"none": None, "nan": float("nan"), "map": {}, "path": Path("x")}
    (item,) = listed(page("Straße", source="a.pdf", **there, **odd))
    content = read(item)
    assert item.uri == "a.pdf"
    assert (content.data, content.media_type) == ("Straße".encode(), "text/plain")
    assert content.metadata == {"source": "a.pdf", **there}


def test_uris() -> None:
    """Documents of one source are numbered in order; those without one have the class's name."""
    sources = ["a", "b", "a", None, "a#2", "", "a", Path("c.md")]
    items = listed(*(page("x", source=name) for name in sources))
    uris = ["a", "b", "a#2", "Loader", "a#2#2", "Loader#2", "a#3", "c.md"]
    assert [item.uri for item in items] == uris
    assert [item.uri for item in listed(*(page("x", source=name) for name in sources))] == uris


def test_many_of_one_source() -> None:
    """Numbering takes the same time for each further document."""
    items = listed(*(page("x", source="a") for _ in range(20_000)))
    assert items[-1].uri == "a#20000"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.md", "text/markdown"), ("b.MARKDOWN", "text/markdown"), ("c.html", "text/plain")],
)
def test_media_types(name: str, kind: str) -> None:
    """Loaders return plain text, whatever the format of the source, except for Markdown."""
    assert read(listed(page("x", source=name))[0]).media_type == kind


def test_no_surrogates() -> None:
    """Lone surrogates, which no file can contain, are replaced."""
    assert read(listed(page("a\ud800b"))[0]).data == b"a?b"


def test_size() -> None:
    """A document that is too large fails when it is read, and alone."""
    large, small = listed(page("x" * 1025, source="a"), page("x" * 1024, source="b"))
    assert len(read(small).data) == 1024
    with pytest.raises(SourceError, match="a: is larger than 1 KiB"):
        large.read("")


def test_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loader that never ends is stopped, even if its documents are empty."""
    monkeypatch.setattr(langchain_module, "_MAX_DOCUMENTS", 1000)
    with pytest.raises(SourceError, match="returns too much for a source"):
        list(source("Endless").items())


def test_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loader that returns too many bytes is stopped; documents over the limit do not count."""
    monkeypatch.setattr(langchain_module, "_MAX_BYTES", 3000)
    assert len(listed(*(page("x" * 2000, source="a") for _ in range(9)))) == 9
    with pytest.raises(SourceError, match="returns too much for a source"):
        listed(*(page("x" * 1000, source="a") for _ in range(9)))


class Large(BaseLoader):
    """A loader of many documents, each made when it is needed."""

    def __init__(self, count: int, size: int) -> None:
        self._count = count
        self._size = size

    def lazy_load(self) -> Iterator[Document]:
        for number in range(self._count):
            yield page(f"{number:06} " * (self._size // 7), source=f"{number}.txt", number=number)


PEAK = """
import resource, sys
from tests.knowledge.test_sources_langchain import source
items = list(source("Large", count=int(sys.argv[1]), size=1024**2, max_bytes=1024**2).items())
for number, item in enumerate(items):
    content = item.read("")
    assert content.data.startswith(f"{number:06} ".encode())
    assert content.metadata["number"] == number
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="measured in kilobytes on Linux")
def test_memory() -> None:
    """A process's memory does not grow with the number of documents of a loader."""

    def peak(count: int) -> int:
        done = run_program(
            [sys.executable, "-c", PEAK, str(count)], cwd=Path(__file__).parents[2], check=True
        )
        return int(done.stdout)

    assert peak(200) - peak(4) < 20 * 1024


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are listed by Linux")
def test_the_temporary_file_goes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The file is removed when no item is left to read it, and when the loader fails."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def open_files() -> list[str]:
        links = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
        return [link for link in links if link.startswith(str(tmp_path))]

    items = listed(page("x" * 100), page("y" * 100))
    (last,) = items[1:]
    del items
    assert len(open_files()) == 1
    assert read(last).data == b"y" * 100
    del last
    assert not open_files()
    with pytest.raises(SourceError, match="OSError: broken") as caught:
        listed(page("x"), failure=OSError("broken"))
    assert caught.value.__traceback__ is not None
    assert not open_files()
    assert not list(tmp_path.iterdir())


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk fails the source, with a suggested fix."""

    class Full:
        def seek(self, place: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self) -> None:
            pass

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda prefix: Full())
    with pytest.raises(SourceError, match="No space left on device; set TMPDIR to a folder"):
        listed(page("x"))


def test_settings_stay_as_they_are() -> None:
    """A loader that modifies its settings does not change those of the next listing."""
    writing = source("Writing", settings={"a": 1})
    assert [[item.uri for item in writing.items()] for _ in range(2)] == [["1"], ["1"]]


class Writing(BaseLoader):
    """A loader that removes its settings from the mapping that it gets."""

    def __init__(self, settings: dict[str, int]) -> None:
        self._first = settings.pop("a")

    def lazy_load(self) -> Iterator[Document]:
        yield page("x", source=str(self._first))


def test_failure_on_the_way() -> None:
    """A loader that fails midway lists nothing, so the missing documents are not deleted."""
    with pytest.raises(SourceError, match=r"test_sources_langchain:Loader failed: OSError: broken"):
        listed(page("x"), failure=OSError("broken"))


def test_no_document() -> None:
    """A loader without documents is an error, like a pattern without files."""
    with pytest.raises(SourceError, match="returns no documents"):
        listed()


def test_what_is_no_document() -> None:
    """A loader that returns something other than documents fails with its name."""
    with pytest.raises(SourceError, match="Loader failed: TypeError: it returned a str"):
        listed("text")


def test_settings_that_do_not_fit() -> None:
    """A class that cannot be made fails with the reason, without its secrets."""
    with pytest.raises(SourceError, match="cannot be created from this configuration: TypeError"):
        list(source(depth=3).items())
    keyed = LangChainDocuments(
        "key",
        f"{__name__}:Keyed",
        Keyed,
        written={"api_key": "{{ .secrets.KEY }}"},
        settings={"api_key": "hidden"},
        max_bytes=9,
    )
    with pytest.raises(SourceError, match=r"the key \[secret\] is not valid"):
        list(keyed.items())
