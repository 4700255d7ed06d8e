"""A page as a tree of what can be read: elements, their attributes, and how much text they hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.loaders.base import words

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEEPEST = 150
"""Elements below that are read as part of the one above, so that a recursion can follow."""

_UNREAD = words(
    "head script style noscript template svg iframe object embed applet canvas audio video map "
    "select option datalist input button textarea label progress meter annotation rp rt "
    "annotation-xml"
)
_SOFT = {ord(character): None for character in "\N{SOFT HYPHEN}\N{ZERO WIDTH SPACE}\ufeff"}


@dataclass(slots=True)
class Element:
    """An element with what it holds, in order."""

    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)
    letters: int = 0
    """Characters of its text, without white space."""
    linked: int = 0
    """Those of them that are inside links."""
    links: int = 0
    longest: int = 0
    """Letters of its longest piece of text outside links: of a menu's, no sentence."""

    @property
    def names(self) -> str:
        """Its class and id, which say what authors think it is."""
        return f"{self.attributes.get('class', '')} {self.attributes.get('id', '')}".lower()

    def elements(self) -> Iterator[Element]:
        """The elements inside, in the order of the document."""
        waiting = self._inside()
        while waiting:
            element = waiting.pop()
            yield element
            waiting += element._inside()

    def _inside(self) -> list[Element]:
        return [child for child in reversed(self.children) if isinstance(child, Element)]


def read_tree(body: Any) -> Element:
    """The tree of a selectolax node, without what is not text and what is hidden."""
    root = Element("body", {})
    order: list[tuple[Element, Element | None]] = [(root, None)]
    waiting: list[tuple[Any, Element, int]] = [(node, root, 1) for node in _backwards(body)]
    while waiting:
        node, parent, depth = waiting.pop()
        tag = node.tag
        if tag == "-text":
            if text := (node.text_content or "").translate(_SOFT):
                letters = len("".join(text.split()))
                parent.children.append(text)
                parent.letters += letters
                parent.longest = max(parent.longest, letters)
            continue
        if not tag or tag[0] in "-!" or tag in _UNREAD:
            continue
        element = parent
        if depth < _DEEPEST:
            attributes = {name: value or "" for name, value in node.attributes.items()}
            if _is_hidden(attributes):
                continue
            element = Element(tag, attributes)
            parent.children.append(element)
            order.append((element, parent))
        waiting.extend((child, element, depth + 1) for child in _backwards(node))
    for element, above in reversed(order):
        if element.tag == "a" and "href" in element.attributes:
            element.linked, element.links, element.longest = element.letters, 1, 0
        if above:
            above.letters += element.letters
            above.linked += element.linked
            above.links += element.links
            above.longest = max(above.longest, element.longest)
    return root


def _backwards(node: Any) -> Iterator[Any]:
    child = node.last_child
    while child is not None:
        yield child
        child = child.prev


def _is_hidden(attributes: dict[str, str]) -> bool:
    """Not shown to anybody; the panels behind a tab are hidden only until it is chosen."""
    if attributes.get("role") == "tabpanel":
        return False
    if "hidden" in attributes and attributes["hidden"] != "until-found":
        return True
    style = attributes.get("style", "").replace(" ", "").lower()
    return attributes.get("aria-hidden") == "true" or "display:none" in style
