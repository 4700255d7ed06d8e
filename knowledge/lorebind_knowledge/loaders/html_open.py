"""Track the open elements of a page while its tags are read.

Elements begin and end as in HTML 13.2.6, with one exception: an unclosed element ends with its
parent, and is not reopened after it. Parsers that follow the standard exactly search the open
elements at most tags, and reopen formatting elements in each block. Without a limit, 4 MiB of
`<div>` keep them busy for half an hour, and 20 kB of `<b>` and `<p>` take gigabytes. Here, each tag
takes constant time, wherever it is.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import Generic, TypeVar

from lorebind_knowledge.loaders.base import words

T = TypeVar("T")

EMPTY = words(
    "area base basefont bgsound br col colgroup embed frame frameset hr image img input keygen "
    "link meta param source track wbr"
)
_PAGE = words("html head body")
_HEADINGS = words("h1 h2 h3 h4 h5 h6")
_BLOCKS = _HEADINGS | words(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure "
    "footer form header hgroup listing main menu nav ol p pre search section summary ul"
)
_ITEMS = words("li dd")
_FOREIGN = words("svg template select noscript")
_SCOPES = _FOREIGN | words("table td caption object applet marquee foreignobject desc")
_SPECIAL = _BLOCKS | _ITEMS | _SCOPES | words("button tr tbody")
_IN_SCOPE = _SPECIAL | words("a label canvas audio video map datalist title")
"""Elements whose end tag closes all elements that are open inside.

Other elements end only if no special element is open inside.
"""
_ENDS_PARAGRAPH = _BLOCKS | words("li dd dt hr table")

_SAME = dict.fromkeys(_HEADINGS, "h1") | {
    "th": "td", "thead": "tbody", "tfoot": "tbody", "dt": "dd", "optgroup": "option", "rp": "rt",
}  # fmt: skip
"""Elements that count as another kind: each ends where an element of that kind would."""
_BY_THEMSELVES = words("h1 option rt")
"""Elements that end where the next one begins, if nothing else is open inside."""
_ROWS: dict[str, tuple[str, ...]] = {
    "caption": (), "tbody": (), "tr": ("tbody",), "td": ("tbody", "tr"),
}  # fmt: skip
"""The parts of a table, each with the elements around it."""

_BARRIERS = {
    "scope": _SCOPES,
    "button scope": _SCOPES | {"button"},
    "list scope": _SCOPES | {"ul", "ol"},
    "special": _SPECIAL,
    "holder of li": _SPECIAL - words("address div p li"),
    "holder of dd": _SPECIAL - words("address div p dd"),
}


class OpenElements(Generic[T]):
    """A stack of open elements that knows the position of the last element of each kind.

    Args:
        root: represents the page's body, which never ends.
    """

    def __init__(self, root: T) -> None:
        self._names = [""]
        self._elements = [root]
        self._places: defaultdict[str, list[int]] = defaultdict(list)

    @property
    def name(self) -> str:
        """Name of the innermost element, or of the kind that it belongs to."""
        return self._names[-1]

    @property
    def element(self) -> T:
        return self._elements[-1]

    @property
    def depth(self) -> int:
        return len(self._names)

    @property
    def is_between_cells(self) -> bool:
        """Whether a table is open in a position where only its parts are allowed."""
        return self._names[-1] in ("table", "tbody", "tr")

    @property
    def is_foreign(self) -> bool:
        """Whether a drawing or formula is open, in which empty-element tags are allowed."""
        return self._last("svg") > 0 or self._last("math") > 0

    def is_outside(self, name: str) -> bool:
        """Return whether an element that begins now is moved before the enclosing table."""
        return self.is_between_cells and _SAME.get(name, name) not in _ROWS

    def around_table(self) -> tuple[T, T]:
        """Return the parent of the innermost table, and the table."""
        table = self._last("table")
        return self._elements[table - 1], self._elements[table]

    def make_room(self, name: str) -> bool:
        """End the elements that a start tag closes; return False if the new one may not begin."""
        kind = _SAME.get(name, name)
        if kind in _PAGE or (kind == "form" and self.is_between_cells):
            return False
        if kind in _ROWS:
            return self._make_room_for_row(kind)
        if self._last("svg") == self._last("scope") and kind in _ENDS_PARAGRAPH:
            self._end_at(self._last("svg"), 0)  # it was not closed
        if kind == "table" and self._last("table") == self._last("scope"):
            self._end_at(self._last("table"), 0)
        if kind in _ITEMS:
            self._end_at(self._last(kind), self._last(f"holder of {kind}"))
        if kind in _ENDS_PARAGRAPH:
            self._end_at(self._last("p"), self._last("button scope"))
        if kind == "a":
            self._end_at(self._last("a"), self._last("special"))
        elif kind == "button":
            self._end_at(self._last("button"), self._last("scope"))
        elif kind in _BY_THEMSELVES and self.name == kind:
            self._end_at(self.depth - 1, 0)
        return True

    def _make_room_for_row(self, kind: str) -> bool:
        table = self._last("table")
        if table < 0:
            return False
        place = table + 1
        for around in _ROWS[kind]:
            place += self._names[place : place + 1] == [around]
        self._end_at(place, 0)
        return True

    def start(self, name: str, element: T) -> None:
        kind = _SAME.get(name, name)
        for mark in _marks(kind):
            self._places[mark].append(len(self._names))
        self._names.append(kind)
        self._elements.append(element)

    def end(self, name: str) -> bool:
        """End the innermost element of this name with its content; return False if none is open."""
        kind = _SAME.get(name, name)
        if kind in _FOREIGN or kind == "table":
            barrier = 0
        elif kind in _ROWS:
            barrier = self._last("table")
        elif kind == "p":
            barrier = self._last("button scope")
        elif kind == "li":
            barrier = self._last("list scope")
        elif kind in _SCOPES:
            barrier = self._last("scope") - 1
        else:
            barrier = self._last("scope" if kind in _IN_SCOPE else "special")
        return self._end_at(self._last(kind), barrier)

    def _last(self, mark: str) -> int:
        places = self._places.get(mark)
        return places[-1] if places else -1

    def _end_at(self, place: int, barrier: int) -> bool:
        if place <= max(barrier, 0):
            return False
        while len(self._names) > place:
            self._elements.pop()
            for mark in _marks(self._names.pop()):
                self._places[mark].pop()
        return True


@lru_cache(maxsize=512)
def _marks(kind: str) -> tuple[str, ...]:
    return (kind, *(name for name, kinds in _BARRIERS.items() if kind in kinds))
