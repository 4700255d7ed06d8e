"""The choice of a loader, and that every document loads or fails with a reason."""

from __future__ import annotations

import io
import json
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.formats import FORMATS
from lorebind_knowledge.loaders.html.removal import without_html
from lorebind_knowledge.loaders.registry import load_document
from tests.density import examples

from .documents import epub_bytes, handbook, pdf_bytes, pptx_bytes, xlsx_bytes

PAGE = b"<!DOCTYPE html><title>T</title><p>Words"


def archive(name: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr(name, "x")
    return packed.getvalue()


@pytest.mark.parametrize(
    ("data", "uri", "media_type", "format"),
    [
        (b"# A", "X.MD", "", "markdown"),
        (b"# A", "notes/x.TXT", "", "text"),
        (b"# A", "https://example.com/x.md?raw=1#top", "", "markdown"),
        (b"# A", "https://example.com/x.md", "text/plain; charset=utf-8", "markdown"),
        (b"# A", "https://example.com/x", "text/markdown", "markdown"),
        (b"# A", "https://example.com/x.html", "text/markdown", "markdown"),
        (b"# A", "https://example.com/x", "text/plain", "text"),
        (b"a,b", "https://example.com/x.csv", "application/octet-stream", "csv"),
        (PAGE, "x.md", "text/markdown", "html"),
        (b"\xef\xbb\xbf \n" + PAGE, "x", "", "html"),
        (PAGE.decode().encode("utf-16"), "x.txt", "", "html"),
        (b"<HTML lang=en><body>x", "x", "", "html"),
        (b'<?xml version="1.0"?>\n<!DOCTYPE html PUBLIC "x"><html>', "x", "", "html"),
        (b"<p>fragment", "x", "text/html", "html"),
        (b"<htmlish> is **text**", "x.md", "", "markdown"),
        (b"WEBVTT\n\n00:01.000 --> 00:02.000\nHi", "x.txt", "", "vtt"),
        (b"WEBVTT", "x", "", "vtt"),
        (b"WEBVTTish", "x.txt", "", "text"),
        (b"{}", "x", "application/json", "json"),
        (b"{}", "x.ndjson", "", "jsonl"),
    ],
)
def test_choice(data: bytes, uri: str, media_type: str, format: str) -> None:
    """The content decides, then a specific media type, then the extension."""
    assert load_document(data, uri, media_type).format == format


@pytest.mark.parametrize(
    ("data", "uri", "media_type", "reason"),
    [
        (b"x", "a.xyz", "", r"a.xyz: no loader for .xyz; known: .*\.csv, \.docx, .*\.vtt"),
        (b"x", "a.doc", "", r"convert .doc files to .docx, .*: soffice .* docx FILE$"),
        (b"x", "README", "", r"no loader for a file without extension"),
        (b"x", "a.gif", "image/gif", r"no loader for .gif of type image/gif"),
        (b"x", "https://example.com/a?b=c.md", "", r"a file without extension"),
        (archive("a.txt"), "a.txt", "", r"is a ZIP archive that is broken, .*; save .* unpack it$"),
        (b"PK\x03\x04 broken", "a.docx", "", r"is a ZIP archive that is broken, or is not a .docx"),
        (
            b"\xd0\xcf\x11\xe0",
            "a.xls",
            "",
            r"is encrypted, or .* Word, .* as .docx, .xlsx or .pptx$",
        ),
        (b"", "a.docx", "", r"a.docx: is empty; "),
        (b"", "a.pdf", "", r"a.pdf: is empty; "),
        (b"", "a.eml", "", r"a.eml: is empty; "),
        (b"text", "a.epub", "", r"a broken EPUB, or another kind of file: .* not a ZIP archive; "),
        (b"%PDF-1.7 broken", "a.txt", "", r"a.txt: a broken PDF"),
        (b"\0", "a.md", "", r"a.md: looks like a binary file"),
    ],
)
def test_refused(data: bytes, uri: str, media_type: str, reason: str) -> None:
    """A document that no loader reads is refused with a reason; an unknown format names others."""
    with pytest.raises(SourceError, match=reason):
        load_document(data, uri, media_type)


PIECES = st.sampled_from(
    [
        *(b"# A", b"---", b"title: x", b"<p>", b"<table><tr><td>", b"</div>", b'{"a": [1', b"- x"),
        *(b"WEBVTT", b"1", b"00:00:01,000 --> 00:00:02,000", b"00:01.000 --> x", b"a,b;c", b'"'),
        *(b"%PDF-1.4", b"PK\x03\x04", b"<!doctype html>", b"<?xml", b"\xff\xfe", b"\xef\xbb\xbf"),
        *(b"\n", b"\r\n", b"\n\n", b"\\ud800", b"&#0;", b"\xe9", b"```", b"<!--", b"<script>"),
    ]
)
BYTES = st.binary(max_size=60) | st.lists(PIECES | st.binary(max_size=4), max_size=14).map(b"".join)
DOCUMENTS = [
    pdf_bytes(["one", "two"], bookmarks=[("one", 0)]),
    handbook(),
    pptx_bytes(("one", "two"), notes="three"),
    xlsx_bytes({"One": [["a", "b"], [1, None]]}),
    epub_bytes({"a.xhtml": "<h1>One</h1><p>two"}, title="Book"),
    rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}\f0 One \'e9 \u8364?\par}",
    b"Subject: =?utf-8?q?One?=\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\ntwo\n--b--",
]
KINDS = st.sampled_from([(name, "") for name in FORMATS if name[0] == "."]) | st.sampled_from(
    [("", media_type) for media_type in [*FORMATS, "text/plain", "image/png"]]
)


@settings(max_examples=examples(1500), deadline=None)
@given(BYTES, KINDS, st.sampled_from(["", "; charset=shift_jis", "; charset=utf-16", "; ="]))
def test_any_bytes(data: bytes, kind: tuple[str, str], parameters: str) -> None:
    """Any bytes with any name and media type load as a valid document or raise a SourceError."""
    suffix, media_type = kind
    check_loading(data, f"file{suffix}", media_type + parameters)


def check_loading(data: bytes, name: str, media_type: str = "") -> None:
    """Check that bytes load as a valid document or raise a SourceError."""
    try:
        document = load_document(data, name, media_type)
    except SourceError:
        return
    for loaded in (document, without_html(document)):
        loaded.text.encode()
        loaded.title.encode()
        json.dumps(loaded.metadata, allow_nan=False).encode()
        assert "\0" not in loaded.text + loaded.title
        assert 0 <= loaded.body_start <= len(loaded.text)
        starts = [heading.start for heading in loaded.headings]
        assert starts == sorted(starts)
        for heading in loaded.headings:
            assert 1 <= heading.level <= 9
            assert heading.title
            assert heading.start < len(loaded.text)
        ends = [0, *(cue.end for cue in loaded.cues)]
        assert all(
            before <= cue.start < cue.end for before, cue in zip(ends, loaded.cues, strict=False)
        )
        if loaded.text:
            span = loaded.span(loaded.body_start, len(loaded.text))
            assert span.line_end <= loaded.text.count("\n") + 1
            assert (span.time_start is None) == (not loaded.cues)


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_spoiled_documents(data: st.DataObject) -> None:
    """A document with any bytes changed, removed or added loads or fails with a reason."""
    spoiled = bytearray(data.draw(st.sampled_from(DOCUMENTS)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(spoiled)))
        spoiled[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=20))
    for name in ("file.pdf", "file.docx", "file.eml"):
        check_loading(bytes(spoiled), name)
