"""RTF: text, title, and broken files."""

from __future__ import annotations

import pytest

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.registry import load_document

LETTER = (
    rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}{\info{\title The letter}}{\pict 00ff}"
    rb"\f0 Hello \b world\b0\par caf\'e9 costs 3 \u8364?\par\trowd key\cell red\cell\row}"
)


def test_text() -> None:
    """Paragraphs and rows are lines; the title is the document's property."""
    document = load_document(LETTER, "a.rtf")
    assert document.text == "Hello world\ncaf\u00e9 costs 3 \u20ac\nkey|red|"
    assert (document.title, document.format) == ("The letter", "rtf")
    assert load_document(rb"{\rtf1 Hi}", "letters/b.rtf").title == "b"


@pytest.mark.parametrize(
    ("title", "read"),
    [
        (rb"Gr\'fc\'dfe", "Gr\u00fc\u00dfe"),
        (rb"\u1055?\{a\}  b", "\u041f{a} b"),
        (rb"{\b Keys} 2", "Keys 2"),
        (rb"{{\b", "a"),
    ],
)
def test_escapes_in_the_title(title: bytes, read: str) -> None:
    """Escapes are decoded as in the text."""
    data = rb"{\rtf1\ansi\ansicpg1252{\info{\title " + title + rb"}}Hi}"
    assert load_document(data, "a.rtf").title == read
    cyrillic = rb"{\rtf1\ansi\ansicpg1251{\info{\title \'cf}}Hi}"
    assert load_document(cyrillic, "a.rtf").title == "\u041f"


def test_by_content() -> None:
    """RTF is recognized by its beginning; text that was extracted from it is read as text."""
    assert load_document(LETTER, "a.doc").format == "rtf"
    assert load_document(LETTER, "a", "text/rtf").format == "rtf"
    assert load_document(b"Hello world", "a.rtf", "text/plain").format == "text"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"plain text", r"a.rtf: is not RTF"),
        (rb"{\rtf1 \u99999999?}", r"a.rtf: broken RTF"),
    ],
)
def test_refused(data: bytes, reason: str) -> None:
    """The error describes what is wrong."""
    with pytest.raises(SourceError, match=reason):
        load_document(data, "a.rtf")


def test_deep_nesting() -> None:
    """Nested groups are read like others."""
    assert load_document(rb"{\rtf1 " + b"{" * 50_000 + b"x" + b"}" * 50_001, "a.rtf").text == "x"
