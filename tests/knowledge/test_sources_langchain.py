"""Document loaders of LangChain as a source."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document

from lorebind_knowledge.errors import SourceError, UsageError
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


class NotALoader:
    """A class of another kind."""


def source(name: str = "Loader", *, max_bytes: int = 1024, **settings: Any) -> LangChainDocuments:
    path = f"{__name__}:{name}"
    return LangChainDocuments("key", path, written=settings, settings=settings, max_bytes=max_bytes)


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
    there = {"page": 2, "draft": False, "score": 0.5, "lang": "en"}
    odd = {"list": [1], "none": None, "nan": float("nan"), "map": {}, "path": Path("x")}
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

    class Endless(list[Document]):
        def __iter__(self) -> Iterator[Document]:
            while True:
                yield page("")

    monkeypatch.setattr(langchain_module, "_MAX_HELD_BYTES", 1024**2)
    with pytest.raises(SourceError, match="gives too much to be one source"):
        list(source(documents=Endless()).items())


def test_failure_on_the_way() -> None:
    """A loader that fails after some documents lists none: what it did not list is not gone."""
    with pytest.raises(SourceError, match=r"test_sources_langchain:Loader failed: OSError: broken"):
        listed(page("x"), failure=OSError("broken"))


def test_no_document() -> None:
    """A loader without a document is an error, as a pattern without a file is."""
    with pytest.raises(SourceError, match="gives no document"):
        listed()


def test_what_is_no_document() -> None:
    """A loader that gives something else fails with its name."""
    with pytest.raises(SourceError, match="Loader failed: TypeError: it gave a str"):
        listed("text")


def test_settings_that_do_not_fit() -> None:
    """A class that cannot be made says why, without the secrets it was given."""
    with pytest.raises(SourceError, match="cannot be made with the configuration given: TypeError"):
        list(source(depth=3).items())
    keyed = LangChainDocuments(
        "key",
        f"{__name__}:Keyed",
        written={"api_key": "{{ .secrets.KEY }}"},
        settings={"api_key": "hidden"},
        max_bytes=9,
    )
    with pytest.raises(SourceError, match=r"the key \[secret\] is not valid"):
        list(keyed.items())


def test_classes_that_are_none() -> None:
    """What is no loader, or is not there, is refused by its path."""
    with pytest.raises(SourceError, match="NotALoader is not a LangChain BaseLoader"):
        source("NotALoader")
    with pytest.raises(UsageError, match="has no 'Missing'"):
        source("Missing")
    assert "nowhere_at_all" not in sys.modules
    with pytest.raises(UsageError, match="cannot be imported"):
        LangChainDocuments("key", "nowhere_at_all:X", written={}, settings={}, max_bytes=9)
