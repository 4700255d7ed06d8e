"""Parse a page into a tree of readable elements, with the amount of text in each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.base import words
from lorebind_knowledge.loaders.html_open import EMPTY, OpenElements
from lorebind_knowledge.loaders.html_tokens import tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lorebind_knowledge.loaders.html_tokens import Tag

MAX_ELEMENTS = 500_000
"""Maximum per page. Each takes a few hundred bytes; long pages have a tenth of this."""

_DEEPEST = 150
"""Maximum depth; deeper elements are merged into their parent, which limits recursion."""

_UNREAD = words(
    "script style noscript template svg iframe object embed applet canvas audio video map "
    "select option datalist input button textarea label progress meter annotation rp rt "
    "annotation-xml noembed noframes title"
)
_SOFT = {ord(character): None for character in "\N{SOFT HYPHEN}\N{ZERO WIDTH SPACE}\ufeff"}
_NONE: Mapping[str, str] = {}


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


def read_tree(markup: str, uri: str) -> tuple[Element, str]:
    """Return the body, without hidden elements and those that are not text, and the page's title.

    Raises:
        SourceError: the page has more than `MAX_ELEMENTS` elements.
    """
    tree = _Tree(uri)
    for token in tokens(markup):
        if isinstance(token, str):
            tree.text(token)
        elif token.is_end:
            tree.end(token)
        else:
            tree.start(token)
    _measure(tree.body)
    return tree.body, tree.title


class _Tree:
    """The tree under construction. `None` represents elements that are not read."""

    def __init__(self, uri: str) -> None:
        self.body = Element("body", _NONE)
        self.title = ""
        self._uri = uri
        self._open: OpenElements[Element | None] = OpenElements(self.body)
        self._room = MAX_ELEMENTS

    def text(self, text: str) -> None:
        if self._open.name == "title" and not self.title and not self._open.is_foreign:
            self.title = " ".join(text.split())
        between_cells = self._open.is_between_cells
        if not text.isascii():
            text = text.translate(_SOFT)
        if not text or (between_cells and text.isspace()):
            return
        if parent := self._insert(text, before_table=between_cells):
            letters = len("".join(text.split()))
            parent.letters += letters
            parent.longest = max(parent.longest, letters)

    def start(self, tag: Tag) -> None:
        if not self._open.make_room(tag.name):
            return
        if tag.name in ("td", "th") and self._open.name != "tr":
            self._add("tr", _NONE)
        is_foreign = tag.name in ("svg", "math") or self._open.is_foreign
        self._add(tag.name, tag.attributes, is_empty=tag.is_empty and is_foreign)

    def end(self, tag: Tag) -> None:
        if not self._open.end(tag.name) and tag.name in ("p", "br"):
            self._add(tag.name, _NONE)  # as the standard requires
            self._open.end(tag.name)

    def _add(self, name: str, attributes: Mapping[str, str], *, is_empty: bool = False) -> None:
        self._room -= 1
        if self._room < 0:
            raise SourceError(
                f"{self._uri}: its HTML has more than {MAX_ELEMENTS:,} elements; split the page"
            )
        element: Element | None = None
        if name not in _UNREAD and not _is_hidden(attributes):
            if self._open.depth < _DEEPEST:
                new = Element(name, attributes)
                outside = self._open.is_outside(name)
                element = new if self._insert(new, before_table=outside) else None
            else:
                element = self._open.element
        if name not in EMPTY and not is_empty:
            self._open.start(name, element)

    def _insert(self, child: Element | str, *, before_table: bool) -> Element | None:
        """Insert a child at the current position and return its parent, or None if unread."""
        if not before_table:
            if parent := self._open.element:
                parent.children.append(child)
            return parent
        parent, table = self._open.around_table()
        if parent:
            is_last = bool(parent.children) and parent.children[-1] is table
            parent.children.insert(len(parent.children) - is_last, child)
        return parent


def _measure(root: Element) -> None:
    """Add the measures of each element's content."""
    for element in root.children:
        if isinstance(element, str):
            continue
        _measure(element)
        root.letters += element.letters
        root.linked += element.linked
        root.links += element.links
        root.titles += element.titles + (element.tag == "h1")
        root.longest = max(root.longest, element.longest)
    if root.tag == "a" and "href" in root.attributes:
        root.linked, root.links, root.longest = root.letters, 1, 0


def _is_hidden(attributes: Mapping[str, str]) -> bool:
    """Return whether an element is hidden; panels of unselected tabs do not count as hidden."""
    if not attributes or attributes.get("role") == "tabpanel":
        return False
    if "hidden" in attributes and attributes["hidden"] != "until-found":
        return True
    style = attributes.get("style", "").replace(" ", "").lower()
    return attributes.get("aria-hidden") == "true" or "display:none" in style
