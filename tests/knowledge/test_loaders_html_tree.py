"""Pages as trees: what is read of them, and their limits."""

from __future__ import annotations

import pytest

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.html import tree as html_tree
from lorebind_knowledge.loaders.html.tree import Element, read_tree, title_in


def outline(element: Element) -> str:
    """Return a tree in brackets: `p(one b(two))`."""
    inside = " ".join(
        child.strip() if isinstance(child, str) else outline(child) for child in element.children
    )
    return f"{element.tag}({inside})" if inside else element.tag


def tree(markup: str) -> str:
    return outline(read_tree(markup, "page")[0])[len("body(") : -1]


@pytest.mark.parametrize(
    ("markup", "elements"),
    [
        ("<p>a<b>b</p>c", "p(a b(b)) b(c)"),
        ("<ul><li>a<p>b<li>c</ul>", "ul(li(a p(b)) li(c))"),
        ("<table>a<td>b<!-- c --></table>d", "a table(tbody(tr(td(b)))) d"),
        ("a<svg><g>b<title>c</title><path/></g></svg>d", "a d"),
        ("a<template>b</template><script><p></script>c<select><option>d</select>", "a c"),
        ("<math><mi>x</mi><mo>=</mo></math>y", "math(mi(x) mo(=)) y"),
        ("<p hidden>a<p style='display : none'>b<p aria-hidden=true>c<p>d", "p(d)"),
        ("<div hidden=until-found>a</div><div role=tabpanel hidden>b", "div(a) div(b)"),
        ("<div hidden>a<p>b</div>c", "c"),
    ],
)
def test_what_is_read(markup: str, elements: str) -> None:
    """Elements that are hidden, or are not text, are missing with their content."""
    assert tree(markup) == elements


@pytest.mark.parametrize("written", ["class='a&amp;b' ID=c title=x", 'class="a&#38;b"id=c id=d'])
def test_attributes(written: str) -> None:
    """Attributes that decide what is read are kept, decoded, the first of each name."""
    body, *_ = read_tree(f"<p {written} hidden=until-found>", "page")
    (element,) = body.elements()
    assert element.attributes == {"class": "a&b", "id": "c", "hidden": "until-found"}


@pytest.mark.parametrize(
    ("markup", "title"),
    [
        ("<title> A\n&amp; <b> </title>", "A & <b>"),
        ("<svg><g><title>a</title></g></svg><title>b</title>", "b"),
        ("<p>a", ""),
    ],
)
def test_title(markup: str, title: str) -> None:
    """The title is the page's first, in one line, but never that of a drawing."""
    assert title_in(read_tree(markup, "page")[1]) == title


@pytest.mark.parametrize(
    ("reference", "characters"), [("&nGt;", "≫\u20d2"), ("&nLt;", "≪\u20d2"), ("&acE;", "∾\u0333")]
)
def test_references_that_are_shorter_than_their_characters(reference: str, characters: str) -> None:
    """Any number of them is decoded; the parser alone would write beyond its buffer."""
    number = 100_000
    body, *_ = read_tree(f"<p class='{reference * number}'>{reference * number}", "page")
    (element,) = body.elements()
    assert element.children == [characters * number]
    assert element.attributes["class"] == characters * number


def test_depth() -> None:
    """Elements below the maximum depth are merged into their parent, except those not read."""
    deep = "<div>" * html_tree._DEEPEST + "a<p>b<span hidden>c</span><b>d</b></p>e"
    body, *_ = read_tree(deep, "page")
    *_, last = body.elements()
    assert (last.tag, last.children, last.letters) == ("div", ["a", "b", "d", "e"], 4)
    assert body.letters == 4


@pytest.mark.parametrize("piece", ["<p>x", "<br>", "<b></b>", "<table><td>"])
def test_too_many_elements(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of elements is limited, because each takes memory."""
    monkeypatch.setattr(html_tree, "MAX_ELEMENTS", 1000)
    read_tree("<p>x" * 1000, "page")
    with pytest.raises(SourceError, match=r"page: its HTML has more than 1,000 elements; split"):
        read_tree(piece * 1001, "page")
