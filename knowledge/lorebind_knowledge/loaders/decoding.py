"""Decode bytes to text: find the charset."""

from __future__ import annotations

import codecs

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.base import words

# UTF-32 comes first, because its little-endian mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_CHARSETS = words(
    "utf-8 utf-16 utf-16-le utf-16-be cp866 iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 "
    "iso8859-7 iso8859-8 iso8859-10 iso8859-13 iso8859-14 iso8859-15 iso8859-16 koi8-r koi8-u "
    "mac-roman mac-cyrillic cp874 cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 "
    "gbk gb18030 big5 euc_jp iso2022_jp shift_jis cp932 euc_kr cp949"
)
"""Python's names for the encodings of the web (https://encoding.spec.whatwg.org).

Python's other encodings are not used for documents, and some take quadratic time.
"""

_AS_THE_WEB_READS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gbk",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "tis-620": "cp874",
}
"""The supersets that the web's standard uses for these names."""

_GUESSES = sorted(
    name.replace("-", "_") for name in _CHARSETS if not name.startswith(("utf", "mac"))
)
_MOST_LIKELY = "cp1252"
"""The charset preferred over others that fit about as well.

A few accents are not enough to distinguish Latin alphabets.
"""


def decode(data: bytes, uri: str, charset: str = "") -> tuple[str, str]:
    """Return the text, without a byte order mark, and the name of its charset.

    A byte order mark decides. Otherwise the declared charset is used, if it is an encoding of the
    web and fits; then UTF-8; then the best guess. Line ends stay as they are.

    Raises:
        SourceError: the bytes are not text.
    """
    for mark, name in _MARKS:
        if data.startswith(mark):
            try:
                text = data.decode(name)
            except UnicodeDecodeError as error:
                raise SourceError(
                    f"{uri}: begins with the byte order mark of {name.removesuffix('-sig')}, "
                    f"but cannot be decoded: {error.reason} at byte {error.start}"
                ) from error
            return _without_zeros(text, uri), name.removesuffix("-sig")
    declared = known_charset(charset)
    if declared and declared != "utf-8":
        try:
            return _without_zeros(data.decode(declared), uri), declared
        except UnicodeDecodeError:
            pass  # a wrong declaration counts as none
    if b"\0" in data:
        raise _binary(uri)
    try:
        return data.decode(), "utf-8"
    except UnicodeDecodeError:
        return _guess(data, uri)


def known_charset(name: str) -> str:
    """Return Python's name for a declared charset; empty if it is not an encoding of the web."""
    try:
        codec = codecs.lookup(name.strip().strip("'\"")).name
    except (LookupError, ValueError):
        return ""
    codec = _AS_THE_WEB_READS.get(codec, codec)
    return codec if codec in _CHARSETS else ""


def _guess(data: bytes, uri: str) -> tuple[str, str]:
    import charset_normalizer

    guesses = charset_normalizer.from_bytes(data, cp_isolation=_GUESSES)
    best = guesses.best()
    if best is None:
        raise _binary(uri)
    western = [guess for guess in guesses if _MOST_LIKELY in guess.could_be_from_charset]
    if any(
        guess.coherence >= best.coherence and guess.chaos <= best.chaos + 0.1 for guess in western
    ):
        name = _MOST_LIKELY
    else:
        name = codecs.lookup(best.encoding).name
    try:
        return data.decode(name), name
    except UnicodeDecodeError as error:  # the guess for a long text is based on samples
        raise _binary(uri) from error


def _without_zeros(text: str, uri: str) -> str:
    if "\0" in text:
        raise _binary(uri)
    return text


def _binary(uri: str) -> SourceError:
    return SourceError(f"{uri}: looks like a binary file; expected text, preferably in UTF-8")
