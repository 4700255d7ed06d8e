"""Document loaders of LangChain as a source."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.sources import langchain as langchain_module
from lorebind_knowledge.sources.base import Content
from lorebind_knowledge.sources.langchain import LangChainDocuments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_knowledge.sources.base import SourceItem


class Loader(BaseLoader):
    """Gives what it is told to give, and then fails if it is told to."""

    def __init__(self, documents: list[Any], failure: Exception | None = None) -> None:
        self._documents = documents
        self._failure = failure

    def lazy_load(self) -> Iterator[Document]:
        yield from self._documents
        if self._failure:
            raise self._failure


class Keyed(BaseLoader):
    """Quotes its key when it is made, as some do."""

    def __init__(self, api_key: str) -> None:
        raise ValueError(f"the key {api_key} is not valid")


class Endless(BaseLoader):
    """Never ends."""

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
    """Each document is one item, with its text and with what of its metadata is plain."""
    there = {"page": 2, "draft": False, "score": 0.5, "lang": "en", "tags": ["a", 1]}
    odd = {"none": None, "nan": float("nan"), "map": {}, "path": Path("x")}
    (item,) = listed(page("Straße", source="a.pdf", **there, **odd))
    content = read(item)
    assert item.uri == "a.pdf"
    assert (content.data, content.media_type) == ("Straße".encode(), "text/plain")
    assert content.metadata == {"source": "a.pdf", **there}


def test_uris() -> None:
    """Documents of one source are numbered in their order; those of none have the class's name."""
    sources = ["a", "b", "a", None, "a#2", "", "a", Path("c.md")]
    items = listed(*(page("x", source=name) for name in sources))
    uris = ["a", "b", "a#2", "Loader", "a#2#2", "Loader#2", "a#3", "c.md"]
    assert [item.uri for item in items] == uris
    assert [item.uri for item in listed(*(page("x", source=name) for name in sources))] == uris


def test_many_of_one_source() -> None:
    """Numbering does not take longer for each further document."""
    items = listed(*(page("x", source="a") for _ in range(20_000)))
    assert items[-1].uri == "a#20000"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.md", "text/markdown"), ("b.MARKDOWN", "text/markdown"), ("c.html", "text/plain")],
)
def test_media_types(name: str, kind: str) -> None:
    """Text is what a loader gives, whatever it read; only Markdown stays what it was."""
    assert read(listed(page("x", source=name))[0]).media_type == kind


def test_no_surrogates() -> None:
    """Characters that no file can hold are replaced, not fatal."""
    assert read(listed(page("a\ud800b"))[0]).data == b"a?b"


def test_size() -> None:
    """A document that is too large fails when it is read, and alone."""
    large, small = listed(page("x" * 1025, source="a"), page("x" * 1024, source="b"))
    assert len(read(small).data) == 1024
    with pytest.raises(SourceError, match="a: is larger than 1 KiB"):
        large.read("")


def test_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loader that never ends is stopped, though its documents be empty."""
    monkeypatch.setattr(langchain_module, "_MAX_DOCUMENTS", 1000)
    with pytest.raises(SourceError, match="returns too much for a source"):
        list(source("Endless").items())


def test_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loader that gives too many bytes is stopped; what is too large to be read is not held."""
    monkeypatch.setattr(langchain_module, "_MAX_BYTES", 3000)
    assert len(listed(*(page("x" * 2000, source="a") for _ in range(9)))) == 9
    with pytest.raises(SourceError, match="returns too much for a source"):
        listed(*(page("x" * 1000, source="a") for _ in range(9)))


class Large(BaseLoader):
    """Gives many documents, each made when its turn comes."""

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
    """The memory of a process does not grow with what a loader gives."""

    def peak(count: int) -> int:
        done = subprocess.run(
            [sys.executable, "-c", PEAK, str(count)],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        )
        return int(done.stdout)

    assert peak(200) - peak(4) < 20 * 1024


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are listed by Linux")
def test_the_temporary_file_goes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It has gone when nothing can be read any more, and when the loader fails on its way."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def open_files() -> list[str]:
        links = [os.path.realpath(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd")]
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
    """A disk that takes no more fails the source, with what can be done."""

    class Full:
        def seek(self, place: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self) -> None:
            pass

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda prefix: Full())
    with pytest.raises(SourceError, match="No space left on device; set TMPDIR to a folder"):
        listed(page("x"))


def test_settings_stay_as_they_are() -> None:
    """A loader that writes into its settings does not change those of the next listing."""
    made = source("Writing", settings={"a": 1})
    assert [[item.uri for item in made.items()] for _ in range(2)] == [["1"], ["1"]]


class Writing(BaseLoader):
    """Takes its settings out of the mapping that it is given."""

    def __init__(self, settings: dict[str, int]) -> None:
        self._first = settings.pop("a")

    def lazy_load(self) -> Iterator[Document]:
        yield page("x", source=str(self._first))


def test_failure_on_the_way() -> None:
    """A loader that fails after some documents lists none: what it did not list is not gone."""
    with pytest.raises(SourceError, match=r"test_sources_langchain:Loader failed: OSError: broken"):
        listed(page("x"), failure=OSError("broken"))


def test_no_document() -> None:
    """A loader without a document is an error, as a pattern without a file is."""
    with pytest.raises(SourceError, match="returns no documents"):
        listed()


def test_what_is_no_document() -> None:
    """A loader that gives something else fails with its name."""
    with pytest.raises(SourceError, match="Loader failed: TypeError: it returned a str"):
        listed("text")


def test_settings_that_do_not_fit() -> None:
    """A class that cannot be made says why, without the secrets it was given."""
    with pytest.raises(SourceError, match="cannot be made with the configuration given: TypeError"):
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
