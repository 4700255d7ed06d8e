"""Loaders of text: for any bytes, they end with an error or a consistent result."""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lorebind_config.errors import SourceError
from lorebind_knowledge.chunking.recursive import JSON, RecursiveChunker
from lorebind_knowledge.chunking.sections import HTML, MARKDOWN, SectionChunker
from lorebind_knowledge.loaders.base import LoadedDocument
from lorebind_knowledge.loaders.html.removal import without_html
from lorebind_knowledge.loaders.registry import load_document
from tests.processes import run_program

from .text_bombs import BOMBS, MEMORY
from .trials import Case, Trials

ROOT = Path(__file__).parents[2]
SECONDS = 60
FEW = (
    "yaml list",
    "markdown ticks and words",
    "html little bold",
    "html closed inside",
    "html entities",
    "vtt voices and blanks",
)

SUFFIXES = (".md", ".txt", ".html", ".csv", ".tsv", ".json", ".jsonl", ".vtt", ".srt")
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le", "cp1251", "latin-1", "gbk")
MADE = {
    ".md": "---\ntitle: A\ntags: [a, 1:30]\n---\n# One {#x}\n\nText `a`.\n\nTwo\n===\n~~~\n# no\n"
    "~~~\n## Thrée <b>x</b> &amp; <!-- y\nz -->\n\n| a | b |\n|---|---|\n| 1 | 2 |\n" * 3,
    ".txt": "A line.\r\nAnother, with “quotes” and ünlauts.\n\n\tTabs\x0b and 漢字.\n" * 5,
    ".html": "<!doctype html><html><head><title>T - S</title></head><body>"
    "<nav><a href=/>x</a></nav><main><h1>T</h1><p>One <b>two</b><ul><li>a<li>b</ul>"
    "<table><tr><th>k<td>v</table>"
    "<svg><title>no</title></svg><script>'<p>'</script><pre>\n a\n b</pre></main></body></html>",
    ".csv": 'name,"a b",c\n1,"x, ""y""\nz",3\n\n4,,6\n' * 4,
    ".tsv": "name\tvalue\na\t1\nb\t2\n" * 4,
    ".json": json.dumps({"title": "T", "a": [1, {"b": None, "c": "é\n"}], "d": {}}, indent=1),
    ".jsonl": '{"a": 1, "b": ["x", "y"]}\n\n{"a": 2.5e3}\n[]\n"s"\n' * 4,
    ".vtt": "WEBVTT\n\nNOTE x\n\n00:01.000 --> 00:02.500 align:end\n<v Ada>Hello\nthere</v>\n\n"
    "id\n00:02.500 --> 01:00:03.000\n<i>there</i>\nYou &amp; me\n",
    ".srt": "1\n00:00:01,500 --> 00:00:02,000\n<i>Hi</i>\n\n2\n00:01:00,0 --> 00:01:01,000\nBye\n"
    * 2,
}
CHUNKERS = {
    "markdown": SectionChunker(80, 20, levels=MARKDOWN, name="markdown"),
    "html": SectionChunker(80, 20, levels=HTML, name="html"),
    "json": RecursiveChunker(80, 20, levels=JSON, name="json"),
}
OTHER = RecursiveChunker(80, 20)


def _documents() -> list[tuple[str, bytes]]:
    pages = sorted((ROOT / "tests/knowledge/pages").glob("*.html"))
    files = sorted((ROOT / "examples/quickstart/docs").rglob("*.md"))[::8]
    real = [(path.suffix, path.read_bytes()[:20_000]) for path in (*pages, *files)]
    return [*((suffix, text.encode()) for suffix, text in MADE.items() for _ in range(3)), *real]


def _place(case: random.Random, data: bytes) -> tuple[int, int]:
    start = case.randrange(len(data) + 1)
    return start, min(len(data), start + case.choice((1, 2, 5, 40, 400, len(data))))


def _flip(case: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(case.choice((1, 3, 30))):
        if changed:
            changed[case.randrange(len(changed))] = case.choice((case.randrange(256), 0, 10, 60))
    return bytes(changed)


def _splice(case: random.Random, data: bytes) -> bytes:
    start, end = _place(case, data)
    other = case.choice(DOCUMENTS)[1]
    first, last = _place(case, other)
    return data[:start] + other[first:last] + data[end:]


def _truncate(case: random.Random, data: bytes) -> bytes:
    start, end = _place(case, data)
    return case.choice((data[:start], data[start:], data[:start] + data[end:]))


def _duplicate(case: random.Random, data: bytes) -> bytes:
    start, end = _place(case, data)
    times = case.choice((2, 10, 200)) if end - start < 1000 else 2
    return data[:start] + data[start:end] * times + data[end:]


def _encode(case: random.Random, data: bytes) -> bytes:
    text = data.decode(case.choice(ENCODINGS), "replace")
    return text.encode(case.choice(ENCODINGS), "replace")


DOCUMENTS = _documents()
MUTATIONS: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    _flip,
    _splice,
    _truncate,
    _duplicate,
    _encode,
)


def _check_consistent(document: LoadedDocument) -> None:
    text = document.text
    text.encode()  # no lone surrogates, which databases reject
    assert "\0" not in text
    assert document.title.strip()
    assert 0 <= document.body_start <= len(text)
    json.dumps(dict(document.metadata), allow_nan=False)
    starts = [heading.start for heading in document.headings]
    assert starts == sorted(starts)
    assert all(0 <= start < len(text) for start in starts)
    for before, cue in zip((None, *document.cues), document.cues, strict=False):
        assert 0 <= cue.start < cue.end <= len(text)
        assert before is None or before.end < cue.start
        assert math.isfinite(cue.time_start)
        assert math.isfinite(cue.time_end)
    chunker = CHUNKERS.get(document.format, OTHER)
    end = document.body_start
    for start, last in chunker.split(text, document.body_start, len(text), starts):
        assert not text[end:start].strip()
        end = max(end, last)
        span = document.span(start, last)
        assert (span.start, span.end) == (start, last)
        assert text[start:last] == text[start:last].strip() != ""
        assert span.line_start == text.count("\n", 0, start) + 1
        assert span.line_end == text.count("\n", 0, last - 1) + 1
        under = document.heading_path(start)
        assert all(under)
        assert bool(under) == any(place <= start for place in starts)
    assert not text[end:].strip()


def test_mutated_documents(trials: Trials) -> None:
    """A mutated document is read or rejected, and its passages are at their stated locations."""

    def check(case: random.Random) -> None:
        suffix, data = case.choice(DOCUMENTS)
        for _ in range(case.choice((1, 1, 2, 5))):
            data = case.choice(MUTATIONS)(case, data)
        if case.random() < 0.2:
            suffix = case.choice(SUFFIXES)
        try:
            document = load_document(data, f"document{suffix}")
        except SourceError:
            return
        _check_consistent(document)
        _check_consistent(without_html(document))

    trials.run("mutated documents of text", check, short=80, full=2000)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only")
def test_bombs(trials: Trials) -> None:
    """Documents of 4 MiB that were made to be slow or large are handled within the limits."""
    names = [*FEW, *(name for name in BOMBS if name not in FEW)]
    seconds = "10" if trials.full else "3"  # one of the few takes them all

    def check(case: Case) -> None:
        done = run_program(
            [sys.executable, "-m", f"{__package__}.text_bombs", names[case.number], seconds],
            cwd=ROOT,
            timeout=SECONDS,
        )
        assert done.returncode == 0, (names[case.number], done.stderr)
        measured = json.loads(done.stdout)
        assert measured["memory"] <= MEMORY, (names[case.number], measured)
        assert measured["outcome"]

    trials.run("bombs of text", check, short=len(FEW), full=len(names))
