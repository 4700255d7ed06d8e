"""Citations: how a source is shown, and which of the given passages an answer cites.

A marker is a bracket that contains only numbers:

    [1]   [ 1 ]   [1][2]   [1, 3]   [1; 3]   [1 and 4]   [1, 4 & 5]   [1-3]   [1–3]
    【4】   【4†source】   【4:0†source】   ［1］   [４]

The digits may be of any script, and a marker may stand anywhere, even directly after a word. A
number that belongs to no passage is reported as unknown, whatever it means: `[2024]`, or the index
in an `items[0]` that is not written as code.

These are not markers: Markdown code, fenced or inline; a link `[1](https://…)`, the label of a link
`[text][1]` with a declared target, and that target `[1]: https://…`; a footnote `[^1]`; an escaped
bracket, `\\[1]`; and all other ways to write a number, such as `(1)`, `¹` and `[p. 4]`.
"""  # noqa: RUF002 - these brackets, dashes and digits are intended

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import quote

from lorebind_knowledge.text.markdown import code_spans, is_escaped, outside_fences
from lorebind_prompts.cleaning import clean_line

# Every repetition is possessive, so that any answer takes linear time.
_RANGE = r"\d++(?:\s*+[-‐-―−]\s*+\d++)?+"
_JOINT = r"\s*+(?:[,;，、；]\s*+(?:&|and\b)?+|&|and\b|or\b)\s*+"
_MARKER = re.compile(
    rf"[\[［【]\s*+({_RANGE}(?:{_JOINT}{_RANGE})*+)"
    r"(?:(?::\d++)?+†[^\[\]［］【】\n]*+)?+\s*+[\]］】]"
)
_NUMBER = re.compile(r"\d+")
_LINKED = re.compile(
    r"\(\s*+(?:<[^<>\n]*+>|[^\s()<>]*+(?:\([^\s()]*+\)[^\s()]*+)*+)"
    r"(?:\s++(?:\"[^\"]*+\"|'[^']*+'|\([^()]*+\)))?+\s*+\)"
)
_TARGET = re.compile(r"^[ >]{0,8}(?=\[\s?(\d{1,9})\s?\]:[ \t]*<?[A-Za-z][A-Za-z0-9+.-]+:\S)", re.M)
_LONGEST_RANGE = 100
_LONGEST_NUMBER = 10


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage that was shown to the model, with the marker that stands for it."""

    marker: str
    """The marker in the prompt and in the answer: `[1]`."""
    id: str
    uri: str
    title: str
    score: float
    metadata: Mapping[str, Any]
    content: str
    """The passage as the model saw it: cleaned, and shortened if necessary."""
    also: list[Citation] = field(default_factory=list)
    """Other documents or knowledge bases that contain the same passage."""

    @property
    def label(self) -> str:
        """The source on one line, see the function `label`."""
        return label(self.metadata)

    @property
    def url(self) -> str:
        """An address for clients: that in the metadata, the uri if it is one, else `lorebind://`."""
        return address({**self.metadata, "uri": self.uri})

    @property
    def number(self) -> int:
        """The number in its marker."""
        return int(self.marker.strip("[]"))

    def as_data(self, *, content: bool = True) -> dict[str, Any]:
        """Convert to plain values for JSON, including `label`; `content=False` omits the text."""
        data: dict[str, Any] = {
            "marker": self.marker,
            "id": self.id,
            "uri": self.uri,
            "title": self.title,
            "score": self.score,
            "label": self.label,
            "metadata": dict(self.metadata),
            "also": [citation.as_data(content=False) for citation in self.also],
        }
        return data | {"content": self.content} if content else data

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Citation:
        """Restore a citation from the values that `as_data` returned."""
        also = [cls.from_data(citation) for citation in data["also"]]
        names = ("marker", "id", "uri", "title", "score", "metadata")
        content = data.get("content", "")
        return cls(**{name: data[name] for name in names}, content=content, also=also)


class Mention(NamedTuple):
    """One place in an answer that cites a passage. Several can be in one pair of brackets."""

    start: int
    end: int
    """The brackets are `text[start:end]`."""
    citation: Citation


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """An answer with the passages that its markers stand for."""

    text: str
    citations: list[Citation] = field(default_factory=list)
    """Only the cited passages, in the order in which the answer first names them."""
    unknown: list[str] = field(default_factory=list)
    """Markers in the answer that stand for no passage of the prompt."""
    mentions: list[Mention] = field(default_factory=list)
    """Every place that cites one of the passages, in the order of the text."""


def address(metadata: Mapping[str, Any]) -> str:
    """Return the address of a passage for clients, see `Citation.url`."""
    uri = str(metadata.get("uri", ""))
    for url in (metadata.get("url"), uri):
        if isinstance(url, str) and url.startswith(("https://", "http://")):
            return url
    return f"lorebind://{metadata.get('kb_id', '')}/{quote(uri, safe='')}"


def label(metadata: Mapping[str, Any]) -> str:
    """Return a source on one line, for people and models: `docs/cors.md, lines 12-30`.

    A page, slide, time or similar is more precise than lines, and is shown instead of them.
    """
    name = next((str(metadata[key]) for key in ("uri", "title", "kb_id") if metadata.get(key)), "")
    name = clean_line(name) or "untitled"
    place = clean_line(place_of(metadata))
    return f"{name}, {place}" if place else name


def place_of(metadata: Mapping[str, Any]) -> str:
    """Return the location of a passage in its document: `page 4`, `lines 12-30`, or `""`."""
    return named_place(metadata) or _lines(metadata)


def named_place(metadata: Mapping[str, Any]) -> str:
    """Return a more precise location than lines, if known: `page 4`, `rows 2-40`, `00:12:03`."""
    scanned = " (scanned)" if metadata.get("scanned") is True else ""
    # LangChain's loaders count pages from 0; `page_label` is the number printed on the page.
    if (page := metadata.get("page_label") or metadata.get("page")) is not None:
        last = metadata.get("page_end")
        return f"page {page}{scanned}" if last is None else f"pages {page}-{last}{scanned}"
    if (locator := metadata.get("locator")) is not None:
        return f"{locator}{scanned}"
    if (time := metadata.get("time_start")) is not None:
        return time if isinstance(time, str) else _clock(time)
    return ""


def _lines(metadata: Mapping[str, Any]) -> str:
    first, last = metadata.get("line_start"), metadata.get("line_end")
    if first is None:
        return ""
    return f"line {first}" if last in (None, first) else f"lines {first}-{last}"


def _clock(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02}:{minute:02}:{second:02}"


def check(text: str, citations: Sequence[Citation]) -> CitedAnswer:
    """Find the markers in an answer and the passages that they stand for.

    The top of this file defines markers. Each marker is either in `citations` of the result or in
    its `unknown`. Pass the whole answer: whether brackets are a marker can depend on later text.
    """
    by_marker = {citation.marker: citation for citation in citations}
    found = list(_markers(_without_code(text)))
    mentions = [
        Mention(start, end, by_marker[marker])
        for marker, start, end in found
        if marker in by_marker
    ]
    return CitedAnswer(
        text=text,
        citations=list({citation.marker: citation for *_, citation in mentions}.values()),
        unknown=list(dict.fromkeys(marker for marker, *_ in found if marker not in by_marker)),
        mentions=mentions,
    )


def escape_markers(text: str) -> str:
    """Put a backslash before everything that `check` would read as a marker, except in code.

    Links whose text is a number are escaped too, so that the text can be embedded in any other.
    """
    places = [match.start() for match in _unescaped(_without_code(text))]
    return "\\".join(text[start:end] for start, end in pairwise([0, *places, len(text)]))


def _markers(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the markers, each with the span of its brackets."""
    for match in _unlinked(text):
        for part in re.split(_JOINT, match[1]):
            numbers = [_plain(number) for number in _NUMBER.findall(part)]
            first, last = numbers[0], numbers[-1]
            if max(len(first), len(last)) < _LONGEST_NUMBER:
                start, stop = int(first), int(last)
                if start <= stop < start + _LONGEST_RANGE:
                    for number in range(start, stop + 1):
                        yield f"[{number}]", *match.span()
                    continue
            yield f"[{first}-{last}]" if len(numbers) > 1 else f"[{first}]", *match.span()


def _plain(number: str) -> str:
    """Convert a number to ASCII digits without leading zeros."""
    digits = number if number.isascii() else "".join(str(int(digit)) for digit in number)
    return digits.lstrip("0") or "0"


def _unlinked(text: str) -> Iterator[re.Match[str]]:
    """Yield the markers of a text, without its links and their targets."""
    targets = {match.end(): _plain(match[1]) for match in _TARGET.finditer(text)}
    labels = set(targets.values())
    last_end = -1
    for match in _unescaped(text):
        labels_a_link = (
            text[match.start() - 1 : match.start()] == "]"
            and match.start() != last_end
            and match[1].isdecimal()
            and _plain(match[1]) in labels
        )
        last_end = match.end()
        if not (labels_a_link or match.start() in targets or _LINKED.match(text, last_end)):
            yield match


def _unescaped(text: str) -> Iterator[re.Match[str]]:
    return (match for match in _MARKER.finditer(text) if not is_escaped(text, match.start()))


def _without_code(text: str) -> str:
    """Replace code with spaces, so that positions do not change."""
    pieces, at = [], 0
    for first, last in outside_fences(text, 0, len(text)):
        for start, end in [(at, first), *code_spans(text, first, last)]:
            pieces += [text[at:start], re.sub(r"[^\n]", " ", text[start:end])]
            at = end
        pieces.append(text[at:last])
        at = last
    return "".join(pieces)
