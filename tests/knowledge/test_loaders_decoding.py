"""Decoding: byte order marks, declared charsets, UTF-8, the best guess, and binary files."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.decoding import decode, known_charset
from lorebind_knowledge.loaders.marks import Heading
from lorebind_knowledge.loaders.registry import load_document

GERMAN = "Über größere Mädchen – ein “Test” für €5"
RUSSIAN = "Привет, мир. Это простой текст на русском языке."
JAPANESE = "日本語のテキストです。これは文字コードの試験です。"


def test_byte_order_mark_of_utf8() -> None:
    """The mark is not part of the text, and offsets do not count it."""
    document = load_document(b"\xef\xbb\xbf# Title\n", "a.md")
    assert document.text == "# Title\n"
    assert document.headings == (Heading(0, 1, "Title"),)
    assert document.metadata == {}


@pytest.mark.parametrize("charset", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_byte_order_marks(charset: str) -> None:
    """UTF-16 and UTF-32 are recognized by their marks, and named in the metadata."""
    mark = getattr(codecs, f"BOM_{charset.replace('-', '_').upper().replace('UTF_', 'UTF')}")
    document = load_document(mark + JAPANESE.encode(charset), "a.txt")
    assert document.text == JAPANESE
    assert document.metadata == {"encoding": charset[:6]}


@pytest.mark.parametrize(
    ("text", "charset", "name"),
    [
        ("café", "latin-1", "cp1252"),
        (GERMAN, "cp1252", "cp1252"),
        ("This page about El Niño and its effects on the world.", "latin-1", "cp1252"),
        ("Le marché a été très agité; il fait déjà chaud à Nîmes.", "latin-1", "cp1252"),
        ("Zażółć gęślą jaźń", "cp1250", "cp1250"),
        ("Příliš žluťoučký kůň úpěl ďábelské ódy", "cp1250", "cp1250"),
        (RUSSIAN, "cp1251", "cp1251"),
        (RUSSIAN, "koi8-r", "koi8-r"),
        (JAPANESE, "shift_jis", "cp932"),
        (JAPANESE, "euc-jp", "euc_jp"),
        ("这是一个简单的中文文本，用于测试编码。", "gbk", "gb18030"),
    ],
)
def test_guessed(text: str, charset: str, name: str) -> None:
    """A text in a charset other than UTF-8 is read by best guess, which the metadata names."""
    document = load_document(text.encode(charset), "a.md")
    assert document.text == text
    assert document.metadata == {"encoding": name}


@pytest.mark.parametrize("declared", ["iso-8859-5", '"ISO-8859-5"', " iso_8859-5 "])
def test_declared(declared: str) -> None:
    """The charset that the media type declares takes precedence over guesses."""
    data = RUSSIAN.encode("iso-8859-5")
    document = load_document(data, "a.txt", f"text/plain; format=flowed; Charset={declared}")
    assert document.text == RUSSIAN
    assert document.metadata == {"encoding": "iso8859-5"}


@pytest.mark.parametrize("declared", ["us-ascii", "latin-1", "utf-8", "no-such", "idna", "hex", ""])
def test_wrongly_declared(declared: str) -> None:
    """A declaration that is unknown, not a charset of the web or wrong has no effect."""
    assert decode("héllo wörld, ça va bien".encode("cp1252"), "a.txt", declared)[0] == (
        "héllo wörld, ça va bien"
    )


def test_latin_1_is_read_as_the_web_reads_it() -> None:
    """Pages declared as ISO-8859-1 can contain the quotes of windows-1252."""
    assert decode(b"\x93quoted\x94", "a", "ISO-8859-1") == ("“quoted”", "cp1252")
    assert known_charset("utf-7") == known_charset("punycode") == ""


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\0\0",
        b"text" * 4000 + b"\0",
        "text".encode("utf-16-le"),
        codecs.BOM_UTF16_LE + "a\0b".encode("utf-16-le"),
        bytes(range(1, 256)),
        b"\xff\x01\x02\x03\x04" * 50,
        "größer als \1 und schön ".encode("cp1252") * 50,
    ],
)
def test_binary(data: bytes) -> None:
    """Bytes with zeros, or control characters in any charset, are refused."""
    with pytest.raises(SourceError, match=r"a.txt: looks like a binary file"):
        load_document(data, "a.txt")


def test_broken_behind_a_mark() -> None:
    """A text that does not match its byte order mark is refused."""
    with pytest.raises(SourceError, match=r"a.txt: begins with the .* mark of utf-8, but cannot"):
        load_document(codecs.BOM_UTF8 + b"\xff\xfe", "a.txt")


@given(st.text(st.characters(exclude_characters="\0\ufeff", exclude_categories=["Cs"])))
def test_utf8_stays_as_it_is(text: str) -> None:
    """Any text in UTF-8 is read as written, including its line ends."""
    assert decode(text.encode(), "a") == (text, "utf-8")
