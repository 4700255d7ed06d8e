"""Join segments into chunks of bounded size that end at the chosen gaps."""

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
    """Join neighboring segments up to the gaps to break at, within the bounds.

    A chunk continues past a break while it is smaller than the minimum. A chunk that would exceed
    the maximum is cut at the gap with the highest score in its second half. A chunk that is still
    too small is joined with a neighbor if both fit together.

    Args:
        ruler: measures the text of the segments.
        segments: none larger than the maximum.
        scores: one for each gap between two segments.
        breaks: indices into `scores`.
        bounds: the minimum and maximum size of a chunk.
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
