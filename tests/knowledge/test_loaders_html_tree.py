"""Pages as trees: where elements begin and end, and that all tags take the same time."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders import html_tree
from lorebind_knowledge.loaders.html_tokens import Tag, tokens
from lorebind_knowledge.loaders.html_tree import Element, read_tree


def shown(element: Element) -> str:
    """Return a tree in brackets: `p(one b(two))`."""
    inside = " ".join(
        child.strip() if isinstance(child, str) else shown(child) for child in element.children
    )
    return f"{element.tag}({inside})" if inside else element.tag


def tree(markup: str) -> str:
    return shown(read_tree(markup, "page")[0])[len("body(") : -1]


@pytest.mark.parametrize(
    ("markup", "elements"),
    [
        ("<p>a<p>b<div>c</div>d", "p(a) p(b) div(c) d"),
        ("<p>a<b>b</p>c</b>d", "p(a b(b)) c d"),
        ("<ul><li>a<p>b<li>c<ul><li>d</ul><li>e</ul>f", "ul(li(a p(b)) li(c ul(li(d))) li(e)) f"),
        ("<dl><dt>a<dd>b<dt>c</dl>", "dl(dt(a) dd(b) dt(c))"),
        ("<h1>a<h2>b</h1>c", "h1(a) h2(b) c"),
        ("<a href=1>a<a href=2>b</a>c", "a(a) a(b) c"),
        ("<div><span>a</div>b</span>c", "div(span(a)) b c"),
        ("<span><div>a</span>b</div>c", "span(div(a b) c)"),
        ("<br>a<hr>b</br>c</p>d", "br a hr b br c p d"),
        ("a</p>b</div>c</x>", "a p b c"),
        ("<table><tr><td>a<td>b<tr><th>c</table>d", "table(tr(td(a) td(b)) tr(th(c))) d"),
        ("<table><td>a<tbody><td>b</table>", "table(tr(td(a)) tbody(tr(td(b))))"),
        ("<table>a<tr>b<i>c</i><td>d</table>e", "a b i(c) table(tr(td(d))) e"),
        ("<table><td><table><td>a</table>b</table>c", "table(tr(td(table(tr(td(a))) b))) c"),
        ("<table><table>a</table>b", "table a table b"),
        ("<td>a</td><tr>b", "a b"),
        ("<div><table><td></div>a</table>b</div>c", "div(table(tr(td(a))) b) c"),
        ("<table><caption>a<tr><td>b", "table(caption(a) tr(td(b)))"),
        ("a<svg><g>b<title>c</title><path/></g></svg>d<svg>e<p>f", "a d p(f)"),
        ("a<svg/>b<div/>c", "a b div(c)"),
        ("<math><mi>x</mi><mspace/><mo>=</mo></math>y", "math(mi(x) mspace mo(=)) y"),
        ("a<button>b<button>c</button>d", "a d"),
        ("a<select><option>b<option>c</select>d", "a d"),
        ("<ruby>a<rp>(<rt>b<rp>)</ruby>c", "ruby(a) c"),
        ("<p hidden>a<p style='display : none'>b<p aria-hidden=true>c<p>d", "p(d)"),
        ("<div hidden>a<p>b</div>c", "c"),
        ("<form>a<form>b</form>c", "form(a form(b) c)"),
    ],
)
def test_where_elements_end(markup: str, elements: str) -> None:
    """Missing and misplaced end tags have about the same effect as in a browser."""
    assert tree(markup) == elements


@pytest.mark.parametrize(
    ("markup", "read"),
    [
        ("a < b <3 &lt;c&gt; &nGt;", ["a < b <3 <c> ≫⃒"]),
        ("a<!-- <p> -->b<!-->c<!--->d<!--x--!>e<!--f", ["a", "b", "c", "d", "e"]),
        ("a<!doctype x>b<?x y>c</ x>d<![CDATA[e]]>f", ["a", "b", "c", "d", "f"]),
        ("<script>a<b></scripty></script>c", ["<script>", "a<b></scripty>", "</script>", "c"]),
        ("<script><!--<script>a</script>--></script>b",
         ["<script>", "<!--<script>a</script>-->", "</script>", "b"]),
        ("<title>a<b>&amp;</TITLE >c", ["<title>", "a<b>&", "</title>", "c"]),
        ("<style>a", ["<style>", "a"]),
        ('<a ">b', ["<a>", "b"]),
        ("a<b c='", ["a"]),
        ("<b c=d", []),
        ("<x:y-Z>a", ["<x:y-z>", "a"]),
    ],
)  # fmt: skip
def test_tokens(markup: str, read: list[str]) -> None:
    """Tags and texts are separated as in the standard."""
    assert [
        token if isinstance(token, str) else f"<{'/' * token.is_end}{token.name}>"
        for token in tokens(markup)
    ] == read


@pytest.mark.parametrize(
    ("written", "attributes"),
    [
        ("class=a id='b c' HREF=\"d>e\"", {"class": "a", "id": "b c", "href": "d>e"}),
        ("class = a&amp;b class=c hidden", {"class": "a&b", "hidden": ""}),
        ("title=x data-class=y onclick='>'", {}),
        ("class=a/b/", {"class": "a/b/"}),
        ("class='a'id=b", {"class": "a", "id": "b"}),
        ("class=", {"class": ""}),
        ('x" class=a', {"class": "a"}),
    ],
)
def test_attributes(written: str, attributes: dict[str, str]) -> None:
    """Attributes that affect the text are kept, the first of each name."""
    (tag,) = tokens(f"<p {written}>")
    assert isinstance(tag, Tag)
    assert tag.attributes == attributes


def lines_run(markup: str) -> int:
    """Return the number of lines of code that reading executes: work, counted instead of timed."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        read_tree(markup, "page")
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    "piece",
    ["<div>", "<ul><li>", "<b></p>", "<i></div>", "<dl><dd>", "<rt>", "<b><i><u></b>", "<div></x>",
     "<div><table></div></table>", "<optgroup>", "<span><div></span>", "<svg><desc><div></svg>",
     "<form><div></form>", "<table><td>", "<table><b>", "<a><div></a>", "<p><table><p>", "<p>x",
     "<button>", "<template>", "<math><p>", "<h1><i>", "</p>", "<svg><path>"],
)  # fmt: skip
def test_no_tag_costs_more_than_another(piece: str) -> None:
    """A page of twice the length takes twice the work, however it is nested."""
    assert lines_run(piece * 400) < 2.1 * lines_run(piece * 200)


def test_formatting_is_not_opened_again() -> None:
    """An unclosed formatting element ends with its block instead of affecting all that follows."""
    bold = "".join(f"<b id={number}>" for number in range(2000))
    body, _ = read_tree(f"<p>{bold}</p>{'<p>x' * 2000}", "page")
    assert sum(1 for _ in body.elements()) < 4100


def test_too_many_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of elements is limited, because each takes memory."""
    monkeypatch.setattr(html_tree, "MAX_ELEMENTS", 1000)
    read_tree("<p>x" * 1000, "page")
    for piece in ("<p>", "<br>", "</p>", "<b></b>", "<svg><g>", "<table><td>"):
        with pytest.raises(
            SourceError, match=r"page: its HTML has more than 1,000 elements; split"
        ):
            read_tree(piece * 1001, "page")
