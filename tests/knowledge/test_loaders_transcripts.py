"""Transcripts: spoken lines with their times, in WebVTT and SubRip."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.base import LoadedDocument
from lorebind_knowledge.loaders.registry import load_document

SAMPLES = Path(__file__).parents[3] / "shared" / "data" / "captions" / "examples"


def vtt(*cues: tuple[str, str]) -> LoadedDocument:
    blocks = "".join(f"\n{times}\n{text}\n" for times, text in cues)
    return load_document(f"WEBVTT\n{blocks}".encode(), "talk.vtt")


def timed(document: LoadedDocument) -> list[tuple[str, float, float]]:
    return [
        (document.text[cue.start : cue.end], cue.time_start, cue.time_end) for cue in document.cues
    ]


def test_times() -> None:
    """The text is what is spoken; a passage has its start and end time in seconds."""
    document = vtt(
        ("00:01.500 --> 00:03.000", "Hello\nthere"),
        ("00:00:04.000 --> 01:02:03.250 align:start", "World"),
    )
    assert document.text == "Hello\nthere\nWorld"
    assert timed(document) == [("Hello\nthere", 1.5, 3.0), ("World", 4.0, 3723.25)]
    span = document.span(12, 17)
    assert (span.time_start, span.time_end, span.line_start) == (4.0, 3723.25, 3)
    assert document.title == "talk"


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("<v Ada Byron>Hello</v>", "Ada Byron: Hello"),
        ("<v.loud.first Ada>Hello", "Ada: Hello"),
        ("<v  >Hello", "Hello"),
        ("<b>bold</b> <c.red>red</c> <00:01.000>timed <lang en>x</lang>", "bold red timed x"),
        ("a &lt;b&gt; &amp; c&nbsp;d", "a <b> & c d"),
        ("{\\an8}top", "top"),
        ("  spaced   out ", "spaced out"),
    ],
)
def test_markup(written: str, text: str) -> None:
    """Speakers are kept before their words; styling is removed."""
    assert vtt(("00:01.000 --> 00:02.000", written)).text == text


def test_what_is_not_said() -> None:
    """Notes, styles, identifiers and cues without text are omitted."""
    text = (
        "WEBVTT - a title\nKind: captions\n\nSTYLE\n::cue {color: red}\n\nNOTE a note\n\n"
        "intro\n00:01.000 --> 00:02.000\nSaid\n\n00:02.000 --> 00:03.000\n<b></b>\n"
    )
    document = load_document(text.encode(), "a.vtt")
    assert timed(document) == [("Said", 1.0, 2.0)]


def test_roll_up() -> None:
    """Roll-up captions, which repeat the last lines, contribute each line once."""
    document = vtt(
        ("00:01.000 --> 00:02.000", "one"),
        ("00:02.000 --> 00:03.000", "one\ntwo"),
        ("00:03.000 --> 00:04.000", "one\ntwo"),
        ("00:04.000 --> 00:05.000", "two\nthree"),
        ("00:05.000 --> 00:06.000", "one"),
        ("00:06.000 --> 00:07.000", "no\nno"),
    )
    assert timed(document) == [
        ("one", 1.0, 3.0),
        ("two", 2.0, 5.0),
        ("three", 4.0, 5.0),
        ("one", 5.0, 6.0),
        ("no", 6.0, 7.0),
    ]


def test_srt() -> None:
    """SubRip has commas in times, numbers, and markup of other formats."""
    text = "1\r\n00:00:01,500 --> 00:00:02,000\r\n<i>Hi</i>\r\n\r\n"
    text += "2\r\n00:01:00,000 --> 00:01:01,000\r\nBye\r\n"
    document = load_document(b"\xef\xbb\xbf\r\n" + text.encode(), "a.srt")
    assert timed(document) == [("Hi", 1.5, 2.0), ("Bye", 60.0, 61.0)]


@pytest.mark.parametrize(("data", "name"), [(b"Just words\n", "a.srt"), (b"Just words", "a.vtt")])
def test_not_a_transcript(data: bytes, name: str) -> None:
    """A file in another format is refused with the name of the expected format."""
    with pytest.raises(SourceError, match=f"{name}: is not a transcript in the format {name[1:]}"):
        load_document(data, name)


def test_nothing_said() -> None:
    """A transcript without cues is empty, which is not an error."""
    document = load_document(b"WEBVTT\n", "a.vtt")
    assert (document.text, document.cues) == ("", ())


def test_too_many_captions() -> None:
    """More captions than any recording has are refused before they take memory."""
    cue = b"0:0.0-->0:0.1\na\n\n"
    assert load_document(b"WEBVTT\n\n" + cue * 1000, "a.vtt").text == "a"
    with pytest.raises(SourceError, match=r"a.vtt: has more than 100,000 captions; split"):
        load_document(b"WEBVTT\n\n" + cue * 100_001, "a.vtt")


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=3), max_size=8))
def test_cues_cover_the_text(lines: list[list[str]]) -> None:
    """However captions repeat each other, cues are in order and cover all but line breaks."""
    document = vtt(
        *(
            (f"00:{second:02}.000 --> 00:{second + 1:02}.000", "\n".join(filter(None, cue)) or " ")
            for second, cue in enumerate(lines)
        )
    )
    assert "\n".join(text for text, _, _ in timed(document)) == document.text
    times = [time for _, time, _ in timed(document)]
    assert times == sorted(times)
    assert all(start < end for _, start, end in timed(document))


def test_a_real_transcript() -> None:
    """The same talk has the same text and times in both formats."""
    if not SAMPLES.is_dir():
        pytest.skip(f"the sample transcripts are not there: {SAMPLES}")
    documents = [
        load_document((SAMPLES / name).read_bytes(), name)
        for name in ("example.vtt", "example.srt")
    ]
    assert documents[0].text == documents[1].text
    assert documents[0].cues == documents[1].cues
    start = documents[0].text.index("beam of light")
    assert documents[0].span(start, start + 13).time_start == 33.666
