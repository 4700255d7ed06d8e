"""Documents of 4 MiB that were made to use much time or memory of a loader.

Run as a program with the name of one and a number of seconds, it reads the document under the
documented limit of memory and this limit of time, and prints the result as JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from functools import partial

SIZE = 4 * 2**20
MEMORY = 512 * 10**6
"""Bytes that the whole process may use, including interpreter, libraries and document."""


def _full(piece: str | bytes, before: str | bytes = b"", after: str | bytes = b"") -> bytes:
    """Repeat the piece up to the size."""
    piece, before, after = (
        x if isinstance(x, bytes) else x.encode() for x in (piece, before, after)
    )
    return before + piece * ((SIZE - len(before) - len(after)) // len(piece)) + after


def _counted(make: Callable[[int], str], before: str = "", after: str = "") -> bytes:
    """Join different pieces up to the size."""
    pieces, room, number = [before], SIZE - len(before) - len(after), 0
    while room > 0:
        pieces.append(make(number))
        room -= len(pieces[-1].encode())
        number += 1
    return "".join([*pieces[:-1], after]).encode()


def _halves(first: str | bytes, second: str | bytes) -> bytes:
    return _full(first)[: SIZE // 2] + _full(second)[: SIZE // 2]


def _yaml(block: str) -> bytes:
    return f"---\n{block}\n---\ntext\n".encode()


def _nested_json(levels: int, key: str) -> bytes:
    inside = ",".join(["0"] * ((SIZE - levels * (len(key.encode()) + 6)) // 2))
    return (f'{{"{key}":' * levels + f"[{inside}]" + "}" * levels).encode()


def _cues(text: str, ending: str = ".000") -> bytes:
    """Return as many captions as fit, each with its time."""

    def cue(number: int) -> str:
        start = f"{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}{ending}"
        return f"{start} --> {start}\n{text}\n\n"

    return _counted(cue, "WEBVTT\n\n")


def _noise(seed: int, alphabet: bytes) -> bytes:
    import random

    return bytes(random.Random(seed).choices(alphabet, k=SIZE))


_VTT = "WEBVTT\n\n00:00.000 --> 00:01.000\n"
_SRT = "1\n00:00:00,000 --> 00:00:01,000\n"
_B = "".join(f"<b {number:x}>" for number in range(40_000))

BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    # Front matter.
    "yaml list": ("a.md", lambda: _yaml("a:\n" + "- a\n" * (SIZE // 4 - 8))),
    "yaml sexagesimal integer": ("a.md", lambda: _yaml("a: 1" + ":59" * (SIZE // 3 - 8))),
    "yaml sexagesimal float": ("a.md", lambda: _yaml("a: 1" + ":59" * (SIZE // 3 - 8) + ".5")),
    "yaml short sexagesimal": ("a.md", lambda: _yaml("a: 1" + ":59" * 20_000)),
    "yaml long integer": ("a.md", lambda: _yaml("a: " + "9" * (SIZE - 32))),
    "yaml hexadecimal": ("a.md", lambda: _yaml("a: 0x" + "f" * (SIZE - 32))),
    "yaml underscores": ("a.md", lambda: _yaml("a: 1" + "_" * (SIZE - 32))),
    "yaml flow depth": ("a.md", lambda: _yaml("a: " + "[" * (SIZE - 32))),
    "yaml aliases": (
        "a.md",
        lambda: _yaml(
            "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
            + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
        ),
    ),
    "yaml merge keys": (
        "a.md",
        lambda: _yaml(
            "a0: &a0 {k: v}\n"
            + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 400))
        ),
    ),
    "yaml many keys": ("a.md", lambda: b"---\n" + _counted(lambda n: f"{n}:\n")[:-16] + b"---\n"),
    "yaml question marks": ("a.md", lambda: _yaml("? " * (SIZE // 2 - 32))),
    "yaml indents": ("a.md", lambda: _yaml("".join(" " * n + "a:\n" for n in range(2800)))),
    "yaml never closed": ("a.md", lambda: _full("a: b\n", "---\n")),
    "yaml almost closed": ("a.md", lambda: _full("--- x\n", "---\n")),
    "yaml blanks": ("a.md", lambda: _full("---  \t ", "---\n")),
    "yaml base 64": ("a.md", lambda: _yaml("a: !!binary " + "QUJD" * (SIZE // 4 - 16))),
    "yaml timestamps": ("a.md", lambda: _yaml("a:\n" + "- 2001-01-01\n" * (SIZE // 13 - 8))),
    "yaml quotes": ("a.md", lambda: _yaml('a: "' + "\\x41" * (SIZE // 4 - 16) + '"')),
    "yaml folded": ("a.md", lambda: _yaml("a: >\n" + " x\n" * (SIZE // 3 - 16))),
    "yaml that is just short enough": ("a.md", lambda: _yaml("a:\n" + "- a\n" * 16_000)),
    "yaml depth that is just short enough": ("a.md", lambda: _yaml("- " * 32_000 + "a")),
    "yaml flow that is just short enough": ("a.md", lambda: _yaml("a: " + "{a: [" * 12_000)),
    "yaml keys that are just short enough": (
        "a.md",
        lambda: _yaml("".join(f"{n:x}: 1:1:1\n" for n in range(6000))),
    ),
    "yaml anchors": ("a.md", lambda: _yaml("a: [" + "&a *a," * 10_000 + "]")),
    # Markdown.
    "markdown headings": ("a.md", lambda: _full("#\tx\n")),
    "markdown short headings": ("a.md", lambda: _full("a\n-\n")),
    "markdown different headings": ("a.md", lambda: _counted(lambda n: f"# {n}\n")),
    "markdown empty headings": ("a.md", lambda: _full("#\n")),
    "markdown line ends": ("a.md", lambda: _full("\n")),
    "markdown brackets": ("a.md", lambda: _full("# " + "![" * 499 + "\n")),
    "markdown links": ("a.md", lambda: _full("# " + "[](" * 333 + "\n")),
    "markdown braces": ("a.md", lambda: _full("# " + "{ " * 499 + "\n")),
    "markdown angles": ("a.md", lambda: _full("# " + "<a" * 499 + "\n")),
    "markdown ticks": (
        "a.md",
        lambda: _full("# " + "".join("`" * n + "x" for n in range(43)) + "\n"),
    ),
    "markdown ticks and words": (
        "a.md",
        lambda: _full("# " + "`" * 500 + "x" * 480 + "\n"),
    ),
    "markdown one tick": ("a.md", lambda: _full("# " + "` " * 499 + "\n")),
    "markdown hashes": ("a.md", lambda: _full("# ")),
    "markdown closing hashes": ("a.md", lambda: _full("#", "# a ", "x")),
    "markdown blanks": ("a.md", lambda: _full(" ", "# a", "x")),
    "markdown underline": ("a.md", lambda: _full("=", "a\n", " x")),
    "markdown fences": ("a.md", lambda: _full("```\n")),
    "markdown fence of a line": ("a.md", lambda: _full("`", after="\nx")),
    "markdown growing fences": ("a.md", lambda: b"".join(b"`" * n + b"\n" for n in range(3, 2890))),
    "markdown paragraph": ("a.md", lambda: _full("word\n", after="---\n")),
    "markdown digits": ("a.md", lambda: _full("9", after=".")),
    "markdown carriage returns": ("a.md", lambda: _full("\r")),
    # HTML in text.
    "tags in text": ("removal.md", lambda: _full("<b>")),
    "broken tags in text": ("removal.md", lambda: _full("<a b='c ")),
    "attributes in text": ("removal.md", lambda: _full(" a=b", "<a", "<")),
    "attribute names in text": ("removal.md", lambda: _full(":", "<a ", "<")),
    "blanks in a tag in text": ("removal.md", lambda: _full(" ", "<a", "<")),
    "entities in text": ("removal.md", lambda: _full("&lt;")),
    "broken entities in text": ("removal.md", lambda: _full("&" + "a" * 31)),
    "comments in text": ("removal.md", lambda: _full("<!---->")),
    "open comments in text": ("removal.md", lambda: _full("<!--")),
    "scripts in text": ("removal.md", lambda: _full("<script>")),
    "end tags in text": ("removal.md", lambda: _counted(lambda n: f"</x{n}>")),
    "ticks in text": ("removal.md", lambda: _full("` ")),
    "different ticks in text": ("removal.md", lambda: b" ".join(b"`" * n for n in range(1, 2890))),
    "blank lines in text": ("removal.md", lambda: _full("\n \t")),
    "fences in text": ("removal.md", lambda: _full("```\n~~~\n")),
    "headings and tags": ("removal.md", lambda: _full("#\t<b>x&lt;\n")),
    # HTML.
    "html breaks": ("a.html", lambda: _full("<br>")),
    "html breaks and words": ("a.html", lambda: _full("x<br>")),
    "html paragraphs": ("a.html", lambda: _full("<p>")),
    "html paragraphs and words": ("a.html", lambda: _full("<p>x")),
    "html links": ("a.html", lambda: _full("<a>")),
    "html links with words": ("a.html", lambda: _full("<a href>x")),
    "html bold": ("a.html", lambda: _full("<b>x")),
    "html as many elements as are read": ("a.html", lambda: _full("<p>x", "<ul>")[:1_999_000]),
    "html as many links as are read": (
        "a.html",
        lambda: _full("<li><a href=x>", "<ul>")[:3_400_000],
    ),
    "html as many cells as are read": ("a.html", lambda: _full("<td>x", "<table>")[:2_490_000]),
    "html bold and closed": ("a.html", lambda: _full("<b>x</b>")),
    "html divisions": ("a.html", lambda: _full("<div>")),
    "html depth": ("a.html", lambda: _full("</div>", _full("<div>")[: SIZE // 2].decode()[:-1])),
    "html comments": ("a.html", lambda: _full("<!-->")),
    "html comments that end at once": ("a.html", lambda: _full("<div>", "<!-->")),
    "html quote in a tag": ("a.html", lambda: _full("<div>", '<a ">')),
    "html quotes in tags": ("a.html", lambda: _full("<div \"><div '>")),
    "html no-break space before a quote": ("a.html", lambda: _full("<div>", '<a x=\xa0">', '">')),
    "html open quotes": ("a.html", lambda: _full("<a b='c ")),
    "html closed inside": ("a.html", lambda: _full("<span><div></span>")),
    "html closed outside": ("a.html", lambda: _full("<svg><desc><div></svg>")),
    "html forms": ("a.html", lambda: _full("<form><div></form>")),
    "html raw text in foreign content": (
        "a.html",
        lambda: _full("<div>", "<svg><style>", "</style>"),
    ),
    "html character data": ("a.html", lambda: _full("<div>", "<svg><![CDATA[<!--]]></svg>")),
    "html select": ("a.html", lambda: _full("<div>", "<select><xmp></select>", "</xmp>")),
    "html bold again and again": (
        "a.html",
        lambda: f"<p>{_B}</p>".encode() + _full("<p>x")[: SIZE - len(_B) - 7],
    ),
    "html little bold": ("a.html", lambda: f"<p>{_B[:20_000]}</p>{'<p>x' * 2500}".encode()),
    "html bold in cells": (
        "a.html",
        lambda: f"<p>{_B[:20_000]}</p><table>{'<tr><td>x' * 2500}</table>{'<p>x' * 2500}".encode(),
    ),
    "html links closed in blocks": (
        "a.html",
        lambda: _full("<a><div><div><div><div><div><div><div><div></a>x</a>"),
    ),
    "html attributes of one tag": ("a.html", lambda: _counted(lambda n: f" a{n:x}", "<p", ">x")),
    "html attributes of each tag": (
        "a.html",
        lambda: _full("<i a b c d e f g h i j k l m n o p q r s t u v w x y z>x</i>"),
    ),
    "html an attribute of a mebibyte": ("a.html", lambda: _full("_", '<div class="', '">x</div>')),
    "html names": ("a.html", lambda: _full(f'<p class="{"_" * 1000}">x</p>')),
    "html names of words": ("a.html", lambda: _full(f'<p class="{"nav" * 333}x">x</p>')),
    "html tables": ("a.html", lambda: _full("<table><tr><td>x")),
    "html tables in tables": (
        "a.html",
        lambda: _full("<b>word</b>", "<table><tr><td><p><p>" * 30, "</table>" * 30),
    ),
    "html cells": ("a.html", lambda: _full("<td>x", "<table><tr>")),
    "html words in a table": ("a.html", lambda: _full("<tr>x", "<table>")),
    "html headers": ("a.html", lambda: _full("<b>xx</b>", "<header>" * 145)),
    "html items": ("a.html", lambda: _full("<li>x", "<ul>")),
    "html lists of lists": ("a.html", lambda: _full("<li>x", "<ul>" * 140)),
    "html long heading": (
        "a.html",
        lambda: _halves("word ", "<p>word ").replace(b"word", b"<h1>", 1),
    ),
    "html headings": ("a.html", lambda: _full("<h1>x")),
    "html title": ("a.html", lambda: _full("word ", "<title>", "</title>x")),
    "html entities": ("a.html", lambda: _full("&nGt;")),
    "html preformatted": ("a.html", lambda: _full("\n", "<pre>x", "x")),
    "html blanks": ("a.html", lambda: _full(" <b> </b>")),
    "html zero bytes in UTF-16": (
        "a.html",
        lambda: _full("<p>é").decode()[: SIZE // 2 - 1].encode("utf-16"),
    ),
    "html frames": ("a.html", lambda: _full("<frame>", "<frameset>")),
    "html templates": ("a.html", lambda: _full("<template>")),
    "html templates in cells": ("a.html", lambda: _full("<table><td><template>")),
    "html ruby": ("a.html", lambda: _full("<ruby><rt>")),
    "html line ends of old": ("a.html", lambda: _full("\r", "<pre>x", "x")),
    # JSON.
    "json lists": ("a.json", lambda: _full("[],", "[", "0]")),
    "json lists of one": ("a.json", lambda: _full("[1],", "[", "0]")),
    "json objects": ("a.json", lambda: _full("{},", "[", "0]")),
    "json objects of one": ("a.json", lambda: _full('{"":0},', "[", "0]")),
    "json different keys": ("a.json", lambda: _counted(lambda n: f'"{n:x}":0,', "{", '"":0}')),
    "json zeros": ("a.json", lambda: _full("0,", "[", "0]")),
    "json floats": ("a.json", lambda: _full(".1,0", "[0", ".1]")),
    "json empty strings": ("a.json", lambda: _full('"",', "[", "0]")),
    "json depth": ("a.json", lambda: _full("[")),
    "json objects in objects": ("a.json", lambda: _full('{"a":')),
    "json long paths": ("a.json", lambda: _nested_json(900, "k" * 200)),
    "json long wide paths": ("a.json", lambda: _nested_json(900, "𝔎" * 200)),
    "json long path of one": ("a.json", lambda: _nested_json(900, "𝔎" * 1000)),
    "json long number": ("a.json", lambda: _full("9")),
    "json long fraction": ("a.json", lambda: _full("9", "0.")),
    "json long exponent": ("a.json", lambda: _full("9", "1e")),
    "json surrogates": ("a.json", lambda: _full("\\ud800", '"', '"')),
    "json many surrogates": ("a.json", lambda: _full('"\\ud800",', "[", '"\\ud800"]')),
    "json escapes": ("a.json", lambda: _full("\\", '"', '"')),
    "json blanks": ("a.json", lambda: _full(" ", "[", "]")),
    "json title": ("a.json", lambda: _full("x", '{"title":"', '"}')),
    "json control characters": ("a.json", lambda: _full("\\u0000", '["', '"]')),
    "json wide text": ("a.json", lambda: _full('"",', '["𝔎",', "0]")),
    "json lines": ("a.jsonl", lambda: _full("0\n")),
    "json lines of nothing": ("a.jsonl", lambda: _full("\n")),
    "json lines of one": ("a.jsonl", lambda: _full("0,", "[", "0]")),
    "json lines of surrogates": ("a.jsonl", lambda: _full('"\\ud800"\n')),
    # Tables.
    "csv commas": ("a.csv", lambda: _full(",")),
    "csv words": ("a.csv", lambda: _full("a,")),
    "csv different words": ("a.csv", lambda: _counted(lambda n: f"{n:x}z,")),
    "csv numbers": ("a.csv", lambda: _full("1,")),
    "csv counted columns": ("a.csv", lambda: _full("1,", "1\n")),
    "csv lines": ("a.csv", lambda: _full("\n")),
    "csv rows of one": ("a.csv", lambda: _full("1\n")),
    "csv rows of nothing": ("a.csv", lambda: _full(",\n", "a,b\n")),
    "csv long header": ("a.csv", lambda: _full("x", "a", ",b\n1,2\n" * 100)),
    "csv long names": (
        "a.csv",
        lambda: _full("1,2\n", ",".join(f"{n}".rjust(120_000, "x") for n in (1, 2)) + "\n"),
    ),
    "csv many names": (
        "a.csv",
        lambda: _full("1," * 9999 + "\n", ",".join(f"c{n}" for n in range(9999)) + "\n"),
    ),
    "csv quotes": ("a.csv", lambda: _full('"')),
    "csv quoted line ends": ("a.csv", lambda: _full('"\n",')),
    "csv quoted lines": ("a.csv", lambda: _full("\n", 'a,b\n1,"', '"')),
    "csv long number": ("a.csv", lambda: _full("9" * 130_000 + ",")),
    "csv wide": ("a.csv", lambda: _full("1,", "𝔎\n")),
    "tsv blanks": ("a.tsv", lambda: _full("\t ")),
    # Transcripts.
    "vtt cues": ("a.vtt", lambda: _full("0:0.0-->0:0.1\na\n\n", "WEBVTT\n\n")),
    "vtt cues without text": ("a.vtt", lambda: _full("0:0.0-->0:0.1\n\n", "WEBVTT\n\n")),
    "vtt as many cues as are read": (
        "a.vtt",
        lambda: b"WEBVTT\n\n" + b"0:0.0-->0:0.1 align:end\n<v a>b\n\n" * 99_999,
    ),
    "srt as many cues as are read": (
        "a.srt",
        lambda: b"1\n0:0:0,0-->0:0:0,1\n<v a>b\n\n" * 99_999,
    ),
    "vtt different cues": ("a.vtt", lambda: _cues("x")),
    "vtt cues in one": ("a.vtt", lambda: _full("0:0.0-->0:0.1\n", "WEBVTT\n\n")),
    "vtt settings": ("a.vtt", lambda: _full("0:0.0-->0:0.1 align:end\na\n\n", "WEBVTT\n\n")),
    "vtt a long setting": ("a.vtt", lambda: _full(" line:1", "WEBVTT\n\n0:0.0-->0:0.1", "\na\n")),
    "vtt voices and blanks": ("a.vtt", lambda: _full(" ", f"{_VTT}x<v", "x\n")),
    "vtt voices": ("a.vtt", lambda: _full("<v a ", _VTT)),
    "vtt short voices": ("a.vtt", lambda: _full("<v ", _VTT)),
    "vtt voice classes": ("a.vtt", lambda: _full(".a", f"{_VTT}<v", "\n")),
    "vtt names": ("a.vtt", lambda: _full("<v a>b", _VTT)),
    "vtt angles": ("a.vtt", lambda: _full("<", _VTT)),
    "vtt styling": ("a.vtt", lambda: _full("{\\", _VTT)),
    "vtt lines": ("a.vtt", lambda: _full("a\nb\n", _VTT)),
    "vtt entities": ("a.vtt", lambda: _full("&amp;", _VTT)),
    "vtt long entity": ("a.vtt", lambda: _full("&#", _VTT)),
    "vtt comments": ("a.vtt", lambda: _full("NOTE\n\n", "WEBVTT\n\n")),
    "vtt styles": ("a.vtt", lambda: _full("STYLE\na\n\n", "WEBVTT\n\n")),
    "vtt regions": ("a.vtt", lambda: _full("REGION\nid:a\n\n", "WEBVTT\n\n")),
    "vtt a region": ("a.vtt", lambda: _full("id:a ", "WEBVTT\n\nREGION\n")),
    "vtt blanks before a time": ("a.vtt", lambda: _full(" ", "WEBVTT\n\n", "x")),
    "vtt digits": ("a.vtt", lambda: _full("9", "WEBVTT\n\n", ":00:00.000 --> 0:0.0\nx\n")),
    "vtt many digits": (
        "a.vtt",
        lambda: _full("9" * 400 + ":00:00.0-->0:0.0\nx\n\n", "WEBVTT\n\n"),
    ),
    "vtt arrows": ("a.vtt", lambda: _full("-->\n", "WEBVTT\n\n")),
    "vtt header": ("a.vtt", lambda: _full("a: b\n", "WEBVTT\n")),
    "vtt line ends": ("a.vtt", lambda: _full("\n", "WEBVTT\n", "x")),
    "srt cues": ("a.srt", lambda: _full("1\n0:0:0,0-->0:0:0,1\na\n\n")),
    "srt cues without blank lines": ("a.srt", lambda: _full("1\n0:0:0,0-->0:0:0,1\na\n")),
    "srt blocks": ("a.srt", lambda: _full("a\n\n", _SRT)),
    "srt numbers": ("a.srt", lambda: _full("1\n\n", _SRT)),
    "srt digits": ("a.srt", lambda: _full("9", after="\n0:0:0,0 --> 0:0:0,1\nx\n")),
    "srt long time": ("a.srt", lambda: _full("9", "1\n", ":0:0,0 --> 0:0:0,1\nx\n")),
    "srt long fraction": ("a.srt", lambda: _full("9", "1\n0:0:0,", " --> 0:0:0,1\nx\n")),
    "srt styling": ("a.srt", lambda: _full("{\\an8", _SRT)),
    # Charsets.
    "no charset": ("a.txt", lambda: _noise(1, bytes(range(1, 256)))),
    "no charset without control characters": ("a.txt", lambda: _noise(2, bytes(range(32, 256)))),
    "accents": ("a.txt", lambda: _full("été ".encode("latin-1"))),
    "one accent at the end": ("a.txt", lambda: _full("a ", after=b"\xe9")),
    "one accent at the start": ("a.txt", lambda: _full("a", b"\xe9")),
    "japanese": ("a.txt", lambda: _full("日本語の文字コード".encode("shift_jis"))),
    "russian": ("a.txt", lambda: _full("Добро пожаловать ".encode("koi8-r"))),
    "russian and chinese": (
        "a.txt",
        lambda: _halves("Добро ".encode("koi8-r"), "漢字".encode("gbk")),
    ),
    "escape sequences": ("a.txt", lambda: _full(b"\x1b$B!!\x1b(B", after=b"\xe9")),
    "high bytes": ("a.txt", lambda: _full(b"\xff")),
    "utf-8 that breaks off": ("a.txt", lambda: _full("日", after=b"\xe6")),
    "utf-16 of odd length": ("a.txt", lambda: _full(b"a\0", b"\xff\xfe", b"a")),
    "utf-16 of surrogates": ("a.txt", lambda: _full(b"\0\xd8", b"\xff\xfe")),
    "utf-32": ("a.txt", lambda: _full("𝔎".encode("utf-32-le"), b"\xff\xfe\0\0")),
    "utf-32 of odd length": ("a.txt", lambda: _full(b"a\0\0\0", b"\xff\xfe\0\0", b"a")),
    "declared": ("a.html", lambda: _full(b"\xff", b"<meta charset=iso-2022-jp>")),
    "declared again and again": ("a.html", lambda: _full(b"<meta ")),
    "declared in the text": ("a.txt", lambda: _full("charset: utf-16 ", after=b"\xe9")),
    "text of one line": ("a.txt", lambda: _full("x")),
    "wide text": ("a.txt", lambda: _full("x", "𝔎")),
    "byte order marks": ("a.txt", lambda: _full(b"\xef\xbb\xbf")),
}


_IN_TEXT = ("<!--", "<a ", "` ", "``` ", "&a", "<a b=", '<a b="', "</a", "<a b c ", "`")
_IN_HTML = (
    *("<!--", '<a "', "<script>", "<p ", "<a b='", "</", "<", "<ul><li>", "<b></p>", "<i></div>"),
    *("<dl><dd>", "<rt>", "<b><i><u></b>", "<div></x>", "<div><table></div></table>", "<center>"),
    *(
        "<option>",
        "<button>",
        "<svg><p>",
        "<table><b>",
        "<li><p>",
        "</p>",
        "<h1><div>",
        "<math><a>",
    ),
)
BOMBS |= {f"text: {piece}": ("removal.md", partial(_full, piece)) for piece in _IN_TEXT}
BOMBS |= {f"html: {piece}": ("a.html", partial(_full, piece)) for piece in _IN_HTML}


def read(name: str, seconds: float) -> dict[str, object]:
    """Read a bomb within a limit of seconds, and return its cost and result."""
    from lorebind_config.declarations.sources import LoadingDeclaration
    from lorebind_config.errors import SourceError
    from lorebind_knowledge.loaders.base import LoadedDocument
    from lorebind_knowledge.loaders.html.removal import without_html
    from lorebind_knowledge.loaders.readers import Readers
    from lorebind_knowledge.loaders.registry import begin_load

    uri, make = BOMBS[name]
    data = make()
    assert len(data) <= SIZE
    started = time.process_time()
    try:
        with Readers(LoadingDeclaration(max_seconds=seconds)) as readers:
            begun = begin_load(data, uri, "", readers.begin)
            document = begun if isinstance(begun, LoadedDocument) else begun.result()
        if uri.startswith("removal"):
            document = without_html(document)
        document.span(0, len(document.text))
        document.heading_path(len(document.text))
        outcome = f"{len(document.text)} characters"
    except SourceError as error:
        outcome = str(error)[:200]
    return {
        "outcome": outcome,
        "seconds": round(time.process_time() - started, 2),
        "memory": _peak() + resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024,
    }


def _peak() -> int:
    """Return the peak memory in bytes. `ru_maxrss` would include the memory of the parent."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    print(json.dumps(read(sys.argv[1], float(sys.argv[2]))))
