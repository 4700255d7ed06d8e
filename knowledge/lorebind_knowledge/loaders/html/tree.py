"""Parse a page into a tree of readable elements, with the amount of text in each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.base import words

MAX_ELEMENTS = 500_000
"""Maximum per page. Each takes a few hundred bytes; long pages have a tenth of this."""

_DEEPEST = 150
"""Maximum depth; deeper elements are merged into their parent, which limits recursion."""

_UNREAD = words(
    "script style noscript template svg iframe object embed applet canvas audio video map "
    "select option datalist input button textarea label progress meter annotation rp rt "
    "annotation-xml noembed noframes title"
)
_ATTRIBUTES = words("aria-hidden class hidden href id itemprop role start style")
"""The attributes that decide what is read."""

_SOFT = {ord(character): None for character in "\N{SOFT HYPHEN}\N{ZERO WIDTH SPACE}\ufeff"}
_NONE: Mapping[str, str] = {}
_LONGER = {"&nGt;": "\u226b\u20d2", "&nLt;": "\u226a\u20d2"}
"""References that are shorter than their characters in UTF-8, for which Lexbor 3.1 reserves too
little memory: without this, many of them crash the process."""


@dataclass(slots=True)
class Element:
    """An element with its content, in order."""

    tag: str
    attributes: Mapping[str, str]
    children: list[Element | str] = field(default_factory=list)
    letters: int = 0
    """Number of characters of its text, without white space."""
    linked: int = 0
    """Number of these characters that are inside links."""
    links: int = 0
    longest: int = 0
    """Letters of its longest piece of text outside links; in a menu it is short."""
    titles: int = 0
    """Number of first-level headings inside it."""

    @property
    def names(self) -> str:
        """Its class and id, which describe its purpose."""
        return f"{self.attributes.get('class', '')} {self.attributes.get('id', '')}".lower()

    def elements(self) -> Iterator[Element]:
        """Yield all elements inside it, in document order."""
        waiting = self._inside()
        while waiting:
            element = waiting.pop()
            yield element
            waiting += element._inside()

    def _inside(self) -> list[Element]:
        return [child for child in reversed(self.children) if isinstance(child, Element)]


def read_tree(markup: str, uri: str) -> tuple[Element, LexborHTMLParser]:
    """Return the body, without hidden elements and those that are not text, and the parsed page.

    A hostile page can make the parser use much time and memory; see `readers`.

    Raises:
        SourceError: the page has more than `MAX_ELEMENTS` elements.
    """
    for reference, characters in _LONGER.items():
        markup = markup.replace(reference, characters)
    page = LexborHTMLParser(markup, options=LexborDocumentOptions.WO_EVENTS)
    body = Element("body", _NONE)
    if page.body is not None:  # it is None if the page consists of frames
        _fill(body, page.body, uri)
    return body, page


def title_in(page: LexborHTMLParser) -> str:
    """Return the title of a page; empty if it has none."""
    title = page.css_first("title:not(svg *)")
    return " ".join(title.text().split()) if title is not None else ""


def _fill(body: Element, node: LexborNode, uri: str) -> None:
    room = MAX_ELEMENTS
    open_elements = [(body, node.iter(include_text=True))]
    while open_elements:
        parent, nodes = open_elements[-1]
        for node in nodes:
            if node.is_text_node:
                _add_text(parent, node.text_content or "")
            if not node.is_element_node:
                continue
            room -= 1
            if room < 0:
                raise SourceError(
                    f"{uri}: its HTML has more than {MAX_ELEMENTS:,} elements; split the page"
                )
            tag, attributes = node.tag or "", _attributes(node)
            if tag in _UNREAD or (attributes and _is_hidden(attributes)):
                continue
            element = parent
            if len(open_elements) < _DEEPEST:
                element = Element(tag, attributes)
                parent.children.append(element)
            open_elements.append((element, node.iter(include_text=True)))
            break
        else:
            open_elements.pop()
            if open_elements and open_elements[-1][0] is not parent:
                _measure(parent, open_elements[-1][0])


def _attributes(node: LexborNode) -> Mapping[str, str]:
    attributes = node.attributes
    if not attributes:
        return _NONE
    return {name: value or "" for name, value in attributes.items() if name in _ATTRIBUTES}


def _add_text(parent: Element, text: str) -> None:
    if not text.isascii():
        text = text.translate(_SOFT)
    letters = len("".join(text.split()))
    parent.children.append(text)
    parent.letters += letters
    parent.longest = max(parent.longest, letters)


def _measure(element: Element, parent: Element) -> None:
    """Complete the measures of an element, and add them to those of its parent."""
    if element.tag == "a" and "href" in element.attributes:
        element.linked, element.links, element.longest = element.letters, 1, 0
    parent.letters += element.letters
    parent.linked += element.linked
    parent.links += element.links
    parent.titles += element.titles + (element.tag == "h1")
    parent.longest = max(parent.longest, element.longest)


def _is_hidden(attributes: Mapping[str, str]) -> bool:
    """Return whether an element is hidden; panels of unselected tabs do not count as hidden."""
    if attributes.get("role") == "tabpanel":
        return False
    if "hidden" in attributes and attributes["hidden"] != "until-found":
        return True
    style = attributes.get("style", "").replace(" ", "").lower()
    return attributes.get("aria-hidden") == "true" or "display:none" in style
