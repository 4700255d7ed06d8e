"""From segments and the gaps to break at to passages of a bounded size."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from lorebind_knowledge.chunking.base import Interval
    from lorebind_knowledge.chunking.rulers import Ruler
    from lorebind_knowledge.chunking.segments import Segment


def pack(
    ruler: Ruler,
    segments: Sequence[Segment],
    scores: Sequence[float],
    breaks: Collection[int],
    bounds: tuple[int, int],
) -> list[Interval]:
    """Join neighbouring segments up to the gaps to break at, within the bounds.

    A passage goes on over a break while it has less than the smaller bound; one that has grown
    over the larger is cut at its greatest score in the second half. A passage that is still too
    small joins a neighbour with which it fits.

    Args:
        ruler: measures the text that the segments are of.
        segments: none larger than the larger bound.
        scores: one for each gap between two segments.
        breaks: indices of scores.
        bounds: the least and the most that a passage should hold.
    """
    least, most = bounds
    joined: list[Interval] = []
    for start, end in _runs(ruler, segments, scores, breaks, bounds):
        if joined:
            before, place = joined[-1]
            small = min(ruler.length(before, place), ruler.length(start, end)) < least
            if small and ruler.length(before, end) <= most:
                joined[-1] = before, end
                continue
        joined.append((start, end))
    return joined


def _runs(
    ruler: Ruler,
    segments: Sequence[Segment],
    scores: Sequence[float],
    breaks: Collection[int],
    bounds: tuple[int, int],
) -> Iterator[Interval]:
    least, most = bounds
    first = 0
    while first < len(segments):
        start, last, best = segments[first].start, first, -1
        while last + 1 < len(segments):
            length = ruler.length(start, segments[last].end)
            if last in breaks and length >= least:
                break
            if length >= max(least, most // 2) and (best < 0 or scores[last] > scores[best]):
                best = last
            if ruler.length(start, segments[last + 1].end) > most:
                last = best if best >= 0 else last
                break
            last += 1
        yield start, segments[last].end
        first = last + 1
