"""Join chunks that say little to their neighbors: rows of dashes, lists of links, empty markup.

The title and headings are embedded with each chunk. A chunk without words of its own would be found
for every question about them, before the chunks that answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lorebind_knowledge.chunking.base import Chunker, strip
from lorebind_knowledge.chunking.rulers import Ruler, Unit, make_ruler

if TYPE_CHECKING:
    from lorebind_knowledge.chunking.base import Interval

_LITTLE = 0.1
"""Maximum share of letters and digits outside of links and tags; prose has over 0.6."""
_LARGEST = 8192
"""Maximum size of a chunk that is joined with one without letters, as of a declared `size`."""

# Each repetition ends at a character that begins another attempt, so any text takes linear time.
_LINK_OR_TAG = re.compile(
    r"!?\[[^\[\]]*+\](?:\([^()]*+\)|\[[^\[\]]*+\]|:[ \t]*+\S++)"
    r"|\]\([^()]*+\)"  # the end of a linked image
    r"|<[!/?A-Za-z][^<>]*+>|https?://\S++"
)
_LINK_SIGNS = ("[", "](", "<", "://")
"""One of these is in every link and tag."""
_LETTER = re.compile(r"[^\W_]")
_OTHERS = re.compile(r"[\W_]+")
_NO_LETTERS = bytes(byte for byte in range(128) if not chr(byte).isalnum())
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, eq=False)
class JoiningChunker(Chunker):
    """A chunker that joins the chunks of another one with those that say little.

    A chunk that says little becomes a part of the previous or the next one if both fit into the
    size. If they do not, the neighbor gives it about half of its text. If it would still say
    little, the size is more important, except for a chunk without any letter or digit: a row of
    dashes joins the previous chunk even if the result is larger.
    """

    inner: Chunker
    """Its chunks are joined."""
    size: int
    """Maximum number of units per chunk, not counting what surrounds its first and last letter or
    digit."""
    unit: Unit

    @property
    def fingerprint(self) -> str:
        return f"{self.inner.fingerprint} joined/1"

    @property
    def notices(self) -> Sequence[str]:
        return self.inner.notices

    @property
    def estimates(self) -> bool:
        return self.inner.estimates

    def for_language(self, language: str) -> Chunker:
        inner = self.inner.for_language(language)
        return self if inner is self.inner else JoiningChunker(inner, self.size, self.unit)

    def split(
        self, text: str, start: int, end: int, boundaries: Sequence[int] = ()
    ) -> list[Interval]:
        chunks = self.inner.split(text, start, end, boundaries)
        if not any(says_little(text[first:last]) for first, last in chunks):
            return chunks
        ruler = make_ruler(self.unit, text, start, end)
        chunks = _joined(text, chunks, says_little, ruler.count, self.size)
        for at, (first, last) in enumerate(chunks):
            if says_little(text[first:last]):
                self._share(ruler, text, chunks, at - 1) or self._share(ruler, text, chunks, at)
        return _joined(text, chunks, _says_nothing, ruler.length, max(_LARGEST, self.size))

    def _share(self, ruler: Ruler, text: str, chunks: list[Interval], at: int) -> bool:
        """Cut a chunk and the next one elsewhere, if that makes both say something."""
        if not 0 <= at < len(chunks) - 1:
            return False
        left, right = chunks[at : at + 2]
        (start, _), (_, end) = left, right
        giver = right if says_little(text[slice(*left)]) else left
        middle = sum(giver) // 2
        lowest = max(giver[0], ruler.reach_back(start, end, self.size))
        highest = min(giver[1], ruler.reach(start, end, self.size))
        gaps = _SPACE.finditer(text, lowest, highest)
        gap = min(
            gaps, key=lambda gap: ("\n" not in gap[0], abs(gap.start() - middle)), default=None
        )
        if gap is None:
            return False
        cut = [strip(text, start, gap.start()), strip(text, gap.end(), end)]
        for first, last in cut:
            if says_little(text[first:last]) or ruler.count(first, last) > self.size:
                return False
        chunks[at : at + 2] = cut
        return True


def _joined(
    text: str,
    chunks: Sequence[Interval],
    is_part: Callable[[str], bool],
    measure: Callable[[int, int], int],
    most: int,
) -> list[Interval]:
    """Join each chunk that is only a part of others with the previous one, or else the next."""
    joined: list[Interval] = []
    for first, last in chunks:
        if joined:
            start, end = joined[-1]
            parts = is_part(text[start:end]) or is_part(text[first:last])
            if parts and measure(start, max(end, last)) <= most:
                joined[-1] = start, max(end, last)
                continue
        joined.append((first, last))
    return joined


def says_little(text: str) -> bool:
    """Return whether a text is hardly more than punctuation, links and tags."""
    prose = _LINK_OR_TAG.sub("", text) if any(sign in text for sign in _LINK_SIGNS) else text
    # Deleting bytes takes a tenth of the time, and is exact where ASCII alone is enough.
    ascii_letters = prose.encode("ascii", "ignore").translate(None, _NO_LETTERS)
    if len(ascii_letters) > _LITTLE * len(text):
        return False
    return len(_OTHERS.sub("", prose)) <= _LITTLE * len(_SPACE.sub("", text))


def _says_nothing(text: str) -> bool:
    return _LETTER.search(text) is None
