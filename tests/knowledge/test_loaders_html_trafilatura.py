"""HTML read with trafilatura: the article of a news page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from lorebind_config.declarations.sources import LoadingDeclaration
from lorebind_config.errors import DocumentLimitError, MissingDependencyError, SourceError
from lorebind_knowledge.catalog.ledger import DocumentEntry
from lorebind_knowledge.ingest import recipes
from lorebind_knowledge.loaders.base import LoadedDocument
from lorebind_knowledge.loaders.marks import Heading
from lorebind_knowledge.loaders.readers import Readers
from lorebind_knowledge.loaders.registry import begin_load, load_document
from lorebind_knowledge.sources.base import Content, SourceItem
from lorebind_knowledge.sources.folder.files import FileSource

from .bench import Bench, counts
from .test_loaders_readers import ON_LINUX

NEWS = """<!doctype html>
<html><head><title>Café opens old harbour | The Daily Lantern</title></head><body>
<div class="top"><a href="/">Home</a> <a href="/politics">Politics</a> <a href="/s">Sport</a></div>
<div class="story">
 <h1>Café opens old harbour</h1>
 <p>The old harbour opened its gates again on Monday, after three years in which the cranes stood
 still and the warehouses were empty. Several hundred people came to see the first ship.</p>
 <div class="dfpAd"><span>Advertisement</span></div>
 <p>The mayor said that the <code>open_gate</code> switch had been <a href="/gate">repaired</a> by
 hand, and that the <b>city council</b> had paid for it. No other port of the region has one.</p>
 <div class="more"><a href="#rest">Continue reading the main story</a></div>
 <pre><code></code></pre><h2>What it costs</h2>
 <p>A place for a boat costs forty crowns a week, and sixty in summer. Fishermen pay half of that,
 as they did before the harbour was closed. The prices hold until the end of the year.</p>
 <ul><li>Boats of up to ten metres can come without a reservation.</li>
 <li>Larger boats have to ask the harbour master before.</li></ul>
 <pre><code>gate --help</code></pre>
 <pre><code>gate --open
gate --close</code></pre>
 <p>The café at the pier opens at nine in the morning and closes when the last ship has left.</p>
</div>
<div class="most-popular"><h3>Most Popular Articles</h3>
 <p><a href="/1">Ten soups</a> for winter evenings, and what to eat with them.</p>
 <p><a href="/2">A dog</a> that can count, and a cat that does not want to.</p></div>
<div id="comments"><h3>3 comments</h3><ul><li>Finally! I waited for this all my life, says Bob.</li>
<li>Too expensive for what it is, if you ask me or anybody in the street.</li></ul></div>
</body></html>"""
UNWANTED = ("Advertisement", "Continue reading", "Most Popular", "Ten soups")
BOTH_LEAVE_OUT = ("Politics", "says Bob", "Too expensive")


def read(page: str, extractor: str = "trafilatura") -> LoadedDocument:
    return load_document(page.encode(), "news/a.html", extractor=extractor)


def test_a_page_of_news() -> None:
    """The article is read with its headings, lists and code, and nothing around it."""
    document = read(NEWS)
    assert not [words for words in (*UNWANTED, *BOTH_LEAVE_OUT) if words in document.text]
    assert document.title == "Café opens old harbour"
    assert document.format == "html"
    assert document.metadata == {}
    assert "that the open_gate switch had been repaired by hand" in document.text
    assert "- Larger boats have to ask" in document.text
    assert "\n\ngate --help\n\ngate --open\ngate --close\n\n" in document.text
    cost = document.text.index("What it costs")
    assert Heading(cost, 2, "What it costs") in document.headings


def test_the_built_in_extractor() -> None:
    """The default extractor keeps parts that no markup distinguishes from the article."""
    document = read(NEWS, "built_in")
    assert document == load_document(NEWS.encode(), "news/a.html")
    assert not [words for words in UNWANTED if words not in document.text]
    assert not [words for words in BOTH_LEAVE_OUT if words in document.text]


@pytest.mark.parametrize("charset", ["utf-8", "cp1252", "utf-16"])
@pytest.mark.parametrize("header", ["", "text/html; charset={}"])
def test_charset(charset: str, header: str) -> None:
    """The page is decoded as usual, whatever its XML declaration says, and the charset recorded."""
    page = f'<?xml version="1.0" encoding="koi8-r"?>{NEWS}'
    if not header:
        page = page.replace("<head>", f'<head><meta charset="{charset}">')
    document = load_document(page.encode(charset), "a.html", header.format(charset), "trafilatura")
    assert document.title == "Café opens old harbour"
    assert "The café at the pier" in document.text
    assert document.metadata == ({} if charset == "utf-8" else {"encoding": charset})


@pytest.mark.parametrize(
    "page",
    [
        "<html><title>Empty</title><body><script>run()</script></body></html>",
        "<html>",
        "<p>A fragment, which the library takes for no page.</p>",
    ],
)
def test_no_article(page: str) -> None:
    """A page in which the library finds no article is read with the default extractor."""
    assert read(page) == read(page, "built_in")


def test_only_pages() -> None:
    """Documents that are not HTML are read as usual."""
    assert load_document(b"# A\n\nb_c", "a.md", "", "trafilatura").format == "markdown"
    assert load_document(b"a", "a.html", "text/markdown", "trafilatura").format == "markdown"


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the library is missing, reading a page names what to install."""
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    with pytest.raises(MissingDependencyError, match=r"trafilatura.*lorebind\[html\]"):
        read(NEWS)
    assert read(NEWS, "built_in").text


def test_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any exception of the library fails only that page, by name."""

    def fail(*_: object, **__: object) -> str:
        raise RecursionError("too deep")

    monkeypatch.setattr("trafilatura.extract", fail)
    with pytest.raises(SourceError, match=r"a.html: trafilatura cannot read it: RecursionError"):
        read(NEWS)


@ON_LINUX
def test_hostile_pages() -> None:
    """A page that takes too much memory or time fails alone, and the next is read as usual."""
    large = f"<html><body>{'<p>ab' * 100_000}".encode()
    with Readers(LoadingDeclaration(processes=1, max_memory="64 MiB")) as readers:
        hostile, good = begin(readers, large), begin(readers, NEWS.encode())
        with pytest.raises(DocumentLimitError, match=r"64 MiB of memory; .* loading.max_memory"):
            hostile.result()
        assert good.result() == read(NEWS)
    with Readers(LoadingDeclaration(processes=1, max_seconds=0.01)) as readers:
        hostile = begin(readers, f"<html><body>{'<b><p>' * 20_000}x".encode())
        with pytest.raises(DocumentLimitError, match=r"0.01 seconds; .* loading.max_seconds"):
            hostile.result()


def begin(readers: Readers, page: bytes) -> Future[LoadedDocument]:
    begun = begin_load(page, "news/a.html", "", readers.begin, "trafilatura")
    assert isinstance(begun, Future)
    return begun


async def test_only_pages_are_read_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changing the extractor or the library's version rereads only HTML, whatever its name."""
    bench.write("a.md", "# Keys", "Rotate them.")
    bench.write("b.html", NEWS)
    bench.write("c.txt", NEWS)  # HTML by its content
    bench.change(sources=[FileSource("file_glob", ["docs/*"], bench.root)])
    await bench.ingest()
    before = [entry.recipe for entry in documents(bench)]
    assert len(set(before)) == 1
    again, nothing = counts(updated=2, unchanged=1), counts(unchanged=3)
    bench.change(html_extractor="trafilatura")
    assert (await bench.plan()).documents == again
    assert (await bench.ingest()).documents == again
    assert not [text for text in await bench.texts() if "Advertisement" in text]
    assert (await bench.ingest()).documents == nothing
    with monkeypatch.context() as another:
        another.setattr(recipes, "library_version", lambda _: "99.0")
        assert (await bench.ingest()).documents == again
    bench.change(html_extractor="built_in")
    assert (await bench.ingest()).documents == again
    assert [entry.recipe for entry in documents(bench)] == before
    assert (await bench.ingest()).documents == nothing


class Pages:
    """Two addresses without extensions that never change: a page, and Markdown."""

    key = "pages"

    def __init__(self) -> None:
        self.sent: list[str] = []

    def items(self) -> Iterator[SourceItem]:
        yield SourceItem("https://a/page", lambda version: self._read("text/html", version))
        yield SourceItem("https://a/text", lambda version: self._read("text/markdown", version))

    def _read(self, media_type: str, version: str) -> Content | None:
        if version:
            return None
        self.sent.append(media_type)
        return Content(NEWS.removeprefix("<!doctype html>\n<html>").encode(), media_type, "one")


async def test_addresses(make_bench: Callable[[str], Bench]) -> None:
    """After a change, each address is fetched once to find out which are pages."""
    bench, pages = make_bench("memory"), Pages()
    bench.change(sources=[pages])
    await bench.ingest()
    bench.change(html_extractor="trafilatura")
    assert (await bench.ingest()).documents == counts(updated=1, unchanged=1)
    assert pages.sent == ["text/html", "text/markdown"] * 2
    assert (await bench.ingest()).documents == counts(unchanged=2)
    assert len(pages.sent) == 4


def documents(bench: Bench) -> list[DocumentEntry]:
    return list(bench.catalog.ledger.documents(bench.entry.key).values())
