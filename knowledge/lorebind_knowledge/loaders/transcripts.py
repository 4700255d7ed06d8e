"""Load transcripts: the spoken text of WebVTT and SubRip captions, with the times of its lines."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterable
from itertools import groupby

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.base import LoadedDocument, title_of
from lorebind_knowledge.loaders.marks import Cue

_VOICE = re.compile(r"<v(?:\.[^\s<>]*+)?\s++([^<>]++)>")
_STYLING = re.compile(r"<[^<>]*+>|\{\\[^{}]*+\}")  # SubRip files use {\an8} of other formats

_MOST_CAPTIONS = 100_000
"""More than a day of captions. They take much more memory when parsed than in the file."""


def load_vtt(text: str, uri: str) -> LoadedDocument:
    """Load the captions of a WebVTT file; see `_load`."""
    return _load("vtt", text, uri)


def load_srt(text: str, uri: str) -> LoadedDocument:
    """Load the captions of a SubRip file; see `_load`."""
    return _load("srt", text, uri)


def _load(form: str, text: str, uri: str) -> LoadedDocument:
    """Load the captions of a file in the format `vtt` or `srt`.

    Raises:
        SourceError: it is not in that format, or has too many captions.
    """
    import webvtt

    if text.count("-->") > _MOST_CAPTIONS:
        raise SourceError(f"{uri}: has more than {_MOST_CAPTIONS:,} captions; split the transcript")
    try:
        captions = webvtt.WebVTT.from_buffer(io.StringIO(text.strip()), format=form).captions
    except Exception as error:  # a broken line can make the library raise anything
        raise SourceError(f"{uri}: is not a transcript in the format .{form}: {error}") from error
    spoken = ((_seconds(c.start), _seconds(c.end), _spoken(c.lines)) for c in captions)
    lines, cues = _without_repeats(spoken)
    return LoadedDocument("\n".join(lines), title_of(uri), format=form, cues=tuple(cues))


def _spoken(lines: Iterable[str]) -> list[str]:
    """Return a caption's lines without markup; a tagged speaker becomes `Name: `."""
    marked = (_VOICE.sub(lambda voice: f"{voice[1].strip()}: ", line) for line in lines)
    plain = (html.unescape(_STYLING.sub("", line)) for line in marked)
    return [text for line in plain if (text := " ".join(line.replace("\0", "").split()))]


def _without_repeats(
    captions: Iterable[tuple[float, float, list[str]]],
) -> tuple[list[str], list[Cue]]:
    """Return the text's lines and their times.

    Roll-up captions repeat the last lines above the new one. Lines that repeat the end of the
    previous caption are dropped, and their time is added to the line that stays.
    """
    texts: list[str] = []
    cues: list[Cue] = []
    length = 0
    before: list[str] = []
    for time_start, time_end, lines in captions:
        repeated = _overlap(before, lines)
        before = lines
        if repeated and cues:
            last = cues[-1]
            cues[-1] = Cue(last.start, last.end, last.time_start, max(last.time_end, time_end))
        new = [line for line, _ in groupby(lines[repeated:])]
        if not new:
            continue
        end = length + len("\n".join(new))
        cues.append(Cue(length, end, time_start, time_end))
        texts += new
        length = end + 1
    return texts, cues


def _overlap(before: list[str], lines: list[str]) -> int:
    """Return how many of the first lines equal the last lines of the previous caption."""
    most = min(len(before), len(lines), 4)  # captions show at most four lines at a time
    return next((n for n in range(most, 0, -1) if before[-n:] == lines[:n]), 0)


def _seconds(timestamp: str) -> float:
    """Return the seconds of `hours:minutes:seconds`; the hours are optional."""
    seconds = 0.0
    for part in timestamp.split(":"):
        seconds = seconds * 60 + float(part)
    return round(seconds, 3)
