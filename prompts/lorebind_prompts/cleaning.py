"""Making text that others wrote harmless to show: one kind of line break, nothing invisible.

Bidirectional controls reorder what a reader sees, zero-width and tag characters hide text that a
model still reads. U+200C and U+200D stay, because Persian, Indic scripts and emoji need them. What
open models write roles with, as in `<|im_start|>`, gets a blank after its first character: servers
that look for such tokens in any text would take a passage's for their own.
"""

from __future__ import annotations

import re

_LINE_BREAKS = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")

_INVISIBLE = re.compile(
    "["
    "\x00-\x08\x0e-\x1f\x7f-\x9f"  # control characters that are no line break and no tab
    "\u00ad\u180e\u200b\u2060-\u2064\ufeff"  # soft hyphen and what has no width
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # direction
    "\ufff9-\ufffb\U000e0000-\U000e007f"  # annotations, tags
    "]"
)
_ROLE_TOKENS = re.compile(
    r"<(?=\|[^|<>\n]{1,40}\|>|｜[^｜<>\n]{1,40}｜>|</?SYS>>"
    r"|/?(?:s|bos|eos|pad|unk|mask|(?:start|end)_of_turn)>)|\[(?=/?INST\])",
    re.IGNORECASE,
)
_SURROGATES = re.compile("[\ud800-\udfff]")

_MAX_LINE = 200


def clean_text(text: str) -> str:
    """The text with `\\n` for every line break, nothing invisible, no role tokens, no blank ends.

    The indentation of the first line that is not blank stays. Doing it twice changes nothing more.
    """
    text = _LINE_BREAKS.sub("\n", text)
    text = _SURROGATES.sub("\ufffd", _INVISIBLE.sub("", text)).rstrip()
    text = _ROLE_TOKENS.sub(r"\g<0> ", text)
    return re.sub(r"\A(?:[^\S\n]*\n)+", "", text)


def clean_line(text: str) -> str:
    """The text on one line, without invisible characters, at most 200 characters long."""
    line = " ".join(clean_text(re.sub("[\u200c\u200d]", "", text)).split())
    return line if len(line) <= _MAX_LINE else line[: _MAX_LINE - 1].rstrip() + "…"
