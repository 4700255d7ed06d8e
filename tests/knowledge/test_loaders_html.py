"""HTML: main content as text, with headings, lists, tables and code; charsets; hostile pages."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from lorebind_config.declarations.sources import LoadingDeclaration
from lorebind_config.errors import DocumentLimitError, SourceError
from lorebind_knowledge.loaders import base
from lorebind_knowledge.loaders.base import LoadedDocument
from lorebind_knowledge.loaders.readers import Readers
from lorebind_knowledge.loaders.registry import begin_load, load_document

from .test_loaders_readers import ON_LINUX

PROSE = "A sentence that is long enough to be content rather than a menu. " * 5


def page(body: str, head: str = "") -> LoadedDocument:
    return load_document(f"<!doctype html><head>{head}</head><body>{body}".encode(), "a/page.html")


# Text of the content.


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<p>One\n  <b>two</b>,\tthree<p>Four", "One two, three\n\nFour"),
        ("a<br>b<div>c</div>d", "a\nb\n\nc\n\nd"),
        ("<p>a</p>\n\n<p> </p><hr><p>b</p>", "a\n\nb"),
        ("<p>soft&shy;ly x&nbsp;y", "softly x y"),
        ("<ul><li>a<li><p>b</p></ul>end", "- a\n- b\n\nend"),
        ("<ol><li>a<li>b</ol>", "1. a\n2. b"),
        ("<ol start=4><li>a<li>b</ol>", "4. a\n5. b"),
        ("<ul><li>a<ul><li>b<ol><li>c</ol></ul><li>d</ul>", "- a\n  - b\n    1. c\n- d"),
        ("<ul><li>a<br>more<p>still</p></ul>", "- a\n  more\n  still"),
        ("<ul><li><li>b</ul>", "- b"),
        ("<dl><dt>t<dd>d<dt>u<dd>e</dl>", "t\nd\nu\ne"),
        ("<blockquote><p>q</p></blockquote>", "q"),
        ("<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby>", "漢"),
        ("<details><summary>More</summary><p>hidden only until asked</p></details>",
         "More\n\nhidden only until asked"),
    ],
)  # fmt: skip
def test_blocks(body: str, text: str) -> None:
    """Blank lines separate paragraphs; items and terms are on lines of their own."""
    assert page(body).text == text


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("<tr><th>a<th>b<tr><td>1<td><p>2</p><tr><td><td>3<tr><td>4<td>", "a | b\n1 | 2\n3\n4"),
        ("<caption>The  table<tr><td>1<td>2", "The table\n1 | 2"),
        ("<tr><td>1<td><td>3", "1 |  | 3"),
        ("<thead><tr><th>h<th>i<tbody><tr><td>x<br>y<td><ul><li>z</ul>", "h | i\nx y | z"),
    ],
)
def test_tables(table: str, text: str) -> None:
    """Each row is a line."""
    assert page(f"before<table>{table}</table>after").text == f"before\n\n{text}\n\nafter"


@pytest.mark.parametrize(
    "table",
    [
        "<tr><td><h2>H</h2><p>a</p><td><p>b</p>",
        "<tr><td><table><tr><td>H</table><td>a<tr><td><p>b</p>",
        "role=none><tr><td>H<tr><td>a<tr><td>b",
    ],
)
def test_tables_for_layout(table: str) -> None:
    """If a table only arranges the page, its cells are read one after another."""
    table = f" {table}" if table.startswith("role") else f">{table}"
    assert page(f"<table{table}</table>").text == "H\n\na\n\nb"


def test_code_keeps_its_lines() -> None:
    """Line breaks and indentation are kept, whatever highlighters and line numbers add."""
    linked = "<pre><a href=x>#</a>include &lt;a.h&gt;</pre>"
    assert page(linked).text == "#include <a.h>"
    code = "<pre>\ndef f():\n    <span class='comment'># a</span>\n\n    return 1<br>f()   \n</pre>"
    assert page(f"<p>x</p>{code}<p>y</p>").text == (
        "x\n\ndef f():\n    # a\n\n    return 1\nf()\n\ny"
    )


def test_headings() -> None:
    """Headings have their levels and positions, without the sign that links to them."""
    document = page(
        "<h1>One <a class=headerlink href=#one>¶</a></h1><p>a</p>"
        "<ul><li><h3>Two\n<code>three</code></h3>b</ul><h2> </h2><h2><a href=#x>§</a>Four</h2>"
    )
    parts = [(h.level, h.title, document.text[h.start :].split("\n")[0]) for h in document.headings]
    assert parts == [(1, "One", "One"), (3, "Two three", "Two three"), (2, "Four", "Four")]
    assert document.heading_path(document.text.index("b")) == ["One", "Two three"]


@pytest.mark.parametrize(
    ("head", "body", "title"),
    [
        ("<title>Keys — The Site</title>", "<h1>Keys</h1>", "Keys"),
        ("<title> Keys\n and locks </title>", "<h1>Another</h1>", "Keys and locks"),
        ("", "<h1>Only</h1>", "Only"),
        ("<title>keys | site</title>", "<h2>Keys</h2>", "Keys"),
        ("<title></title>", "<p>no heading", "page"),
        ("", "<svg><title>Logo</title></svg><p>x", "page"),
    ],
)
def test_title(head: str, body: str, title: str) -> None:
    """The title is the page's title, or the heading if the title adds the site's name to it."""
    assert page(body, head).title == title


# Choice of the content.


@pytest.mark.parametrize(
    "boilerplate",
    [
        "<nav><a href=/>Home</a> gone</nav>",
        "<div role=navigation>gone</div>",
        "<script>gone()</script><style>gone</style><noscript>gone</noscript>",
        "<header><a href=/>gone</a></header>",
        "<footer>gone</footer>",
        "<aside>gone</aside>",
        "<form><label>gone</label><input value=gone><button>gone</button></form>",
        "<div class='cookie-banner'>We use cookies. Gone!</div>",
        "<div id=cookieConsent role=dialog>gone</div>",
        "<section class='newsletter'>Subscribe, gone</section>",
        "<ul class=breadcrumbs><li>gone</ul>",
        "<div hidden>gone</div><p style='display: none'>gone</p><i aria-hidden=true>gone</i>",
        "<div><a href=1>gone</a> | <a href=2>two</a> | <a href=3>three</a></div>",
        "<template><p>gone</p></template><select><option>gone</select><textarea>gone</textarea>",
        "<!-- gone -->",
    ],
)
def test_boilerplate(boilerplate: str) -> None:
    """Boilerplate is omitted, whether its tag, role, name or links identify it."""
    assert page(f"{boilerplate}<p>{PROSE}</p>{boilerplate}").text == PROSE.strip()


def test_main_is_believed() -> None:
    """If `main` has a fair share of the text, only it is read, including all its links."""
    links = "".join(f"<li><a href={n}>item {n}</a>" for n in range(5))
    inside = f"<h1>T</h1><ul>{links}</ul><p>{PROSE}</p><aside>A note</aside>"
    document = page(f"<p>{PROSE}outside</p><main>{inside}<nav>gone</nav></main>")
    assert document.text.startswith("T\n\n- item 0\n- item 1")
    assert document.text.endswith("A note")
    assert "outside" not in document.text


def test_an_empty_main_is_not_believed() -> None:
    """If `main` is almost empty, it is ignored."""
    assert page(f"<main>Loading</main><p>{PROSE}</p>").text == f"Loading\n\n{PROSE.strip()}"


def test_the_largest_article() -> None:
    """An article with most of the text is read alone, including its own header."""
    teaser = "<article><h2>Another</h2></article>"
    article = f"<article><header><h1>T</h1></header><p>{PROSE}</p><footer>tags</footer></article>"
    assert page(f"{teaser}{article}{teaser}").text == f"T\n\n{PROSE.strip()}"


def test_a_page_of_links() -> None:
    """An index page has only links, so they are its content."""
    links = "".join(f"<li><a href={n}>Chapter {n}</a>" for n in range(9))
    assert page(f"<nav>gone</nav><ul>{links}</ul>").text.startswith("- Chapter 0\n- Chapter 1")
    assert page(f"<nav>gone</nav><ul>{links}</ul>" * 4).text.count("- Chapter 8") == 4


def test_sentences_among_links() -> None:
    """A paragraph with a sentence of its own is content, however many links follow."""
    links = ", ".join(f"<a href={n}>TagLib::Class{n}::Tag</a>" for n in range(9))
    paragraph = f"<p>Returns the name of the album. Implemented in {links}.</p>"
    assert page(f"<p>{PROSE * 3}</p><div>{paragraph}</div>").text.endswith("TagLib::Class8::Tag.")


@pytest.mark.parametrize("name", ["sidebar", "banner", "related"])
def test_names_that_are_given_to_content_too(name: str) -> None:
    """A box of text is content, but the same box full of links is not."""
    box = f"<div class={name}>{{}}</div><p>{PROSE}</p><p>{PROSE}</p>"
    assert "A boxed text." in page(box.format("A boxed text.")).text
    assert "gone" not in page(box.format("<a href=x>gone</a>")).text


def test_a_name_of_the_whole_page() -> None:
    """An element with most of the text is content, whatever its name; so is a form around it."""
    assert page(f"<div class='has menu'><p>{PROSE}</p></div>").text == PROSE.strip()
    assert page(f"<form id=aspnetForm><p>{PROSE}</p></form>").text == PROSE.strip()


def test_tab_panels_are_content() -> None:
    """Tab panels are content, because they are hidden only until their tab is selected."""
    body = f"<p>{PROSE}</p><div role=tabpanel hidden>apt install x</div>"
    assert page(body).text.endswith("apt install x")


def test_a_header_with_the_title() -> None:
    """The page's own heading is kept if it is in a header without links."""
    assert page(f"<header><h1>T</h1></header><p>{PROSE}").headings[0].title == "T"


@pytest.mark.parametrize("body", ["", "<nav>x</nav>", "<frameset><frame src=x></frameset>", "<p>"])
def test_nothing_to_read(body: str) -> None:
    """A page without content is an empty text."""
    document = page(body)
    assert (document.text, document.headings, document.title) == ("", (), "page")


# Charsets.


@pytest.mark.parametrize(
    "declaration",
    [
        "<meta charset=koi8-r>",
        '<META CHARSET = "KOI8-R" />',
        '<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">',
    ],
)
def test_meta_charset(declaration: str) -> None:
    """The page's own declaration applies if the media type has none."""
    data = f"<html>{declaration}<p>Добро".encode("koi8-r")
    document = load_document(data, "a.html", "text/html")
    assert (document.text, document.metadata) == ("Добро", {"encoding": "koi8-r"})


def test_precedence_of_charsets() -> None:
    """A byte order mark takes precedence over the media type, and that over the page."""
    text = "<html><meta charset=koi8-r><p>Добро"
    declared = "text/html; charset=cp1251"
    assert load_document(text.encode("cp1251"), "a", declared).text == "Добро"
    assert load_document(text.encode("utf-8-sig"), "a", declared).text == "Добро"
    assert load_document(text.encode("utf-16"), "a", declared).text == "Добро"


def test_utf16_that_is_declared_in_ascii() -> None:
    """A declaration of UTF-16 that is readable byte by byte means UTF-8."""
    data = "<html><meta charset=utf-16><p>Добро".encode()
    assert load_document(data, "a.html").text == "Добро"


# Hostile pages.


@ON_LINUX
def test_pages_are_read_within_limits() -> None:
    """Small pages too are read by processes with limits, and a hostile one fails alone."""
    bold = "".join(f"<b {number}>" for number in range(2000))
    with Readers(LoadingDeclaration(processes=1, max_memory="64 MiB")) as readers:
        hostile, good = (
            begin_load(markup.encode(), "a.html", "", readers.begin)
            for markup in (f"<p>{bold}{'<p>x' * 2000}", "<p>text")
        )
        assert isinstance(hostile, Future)
        with pytest.raises(DocumentLimitError, match=r"64 MiB of memory; .* loading.max_memory"):
            hostile.result()
        assert isinstance(good, Future)
        assert good.result().text == "text"


def test_deep_pages_are_read() -> None:
    """Text is read at any depth."""
    deep = "<div>" * 30_000 + "<p>deep</p>" + "<ul><li>" * 5000 + "item"
    assert page(deep).text.startswith("deep")


def test_long_titles_are_none() -> None:
    """A title that is too long to repeat with each passage counts as text."""
    long = "word " * 200 + "x"
    document = page(f"<h1>{long}</h1><p>text<h2>Short</h2>", f"<title>{long}</title>")
    assert document.text.startswith("word word")
    assert ([heading.title for heading in document.headings], document.title) == (
        ["Short"],
        "Short",
    )


def test_what_grows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nested lists whose text would be far longer than the page are refused, also with listings."""
    monkeypatch.setattr(base, "MAX_CHARACTERS", 100_000)
    for items in ("<li>x" * 1000, "<pre>" + "x\n" * 1000):
        with pytest.raises(SourceError, match=r"longer than 100,000 characters"):
            page("<ul>" * 140 + items)
