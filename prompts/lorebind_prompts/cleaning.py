"""Make foreign text safe to show: uniform line breaks, and no invisible characters.

Invisible characters hide text that a model still reads, cut words in two, or reorder what a reader
sees. Control characters are removed, and so is everything that Unicode calls
Default_Ignorable_Code_Point: zero widths, directions, tags, variation selectors, fillers, and code
points reserved for more of them. Some stay where writing needs them: U+200C and U+200D after a
symbol or a letter that is not ASCII, as in Persian, Indic scripts and emoji; U+FE0E and U+FE0F
after a symbol or in a keycap.

The tokens that open models use for roles, tools and images, such as `<|im_start|>` or
`[TOOL_CALLS]`, get a space after their first character: servers that look for such tokens in any
text would otherwise obey those of a passage. No word is lost.
"""

from __future__ import annotations

import re
import unicodedata

LINE_BREAKS = "\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
"""The characters that end a line, as in the brackets of an expression."""

_JOINERS = "\u200c\u200d"
_PRESENTATION = "\ufe0e\ufe0f"
INVISIBLE = (
    "\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f"  # control characters except line breaks and tabs
    # Default_Ignorable_Code_Point of Unicode 17, DerivedCoreProperties.txt
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\ufff9-\ufffb"  # annotations
)
"""The characters that a reader does not see, as in the brackets of an expression."""
_INVISIBLE = re.compile(f"[{INVISIBLE}]+")

_BRACKETED = (  # tokens of Mistral, ChatGLM and BERT, matched in capitals only
    "INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|CALL_ID|ARGS|THINK"
    "|MODEL_SETTINGS|IMG|IMG_BREAK|IMG_END|AUDIO|BEGIN_AUDIO|TRANSCRIBE|PREFIX|MIDDLE|SUFFIX"
    "|gMASK|sMASK|MASK|CLS|SEP|PAD|UNK|BOS|EOS"
)
_TAGGED = (  # tokens of Llama, Gemma, Qwen, ChatGLM, InternLM, T5 and Seed
    "s|bos|eos|pad|unk|mask|cls|sep|sop|eop|eoh|eoa|eot|(?:start|end)_of_[a-z_]+|image_soft_token"
    "|think|tools?|tool_calls?|tool_response|function_calls?|arg_(?:key|value)"
    "|(?:extra_id|special|reserved|unused)_?[0-9]+|seed:[a-z_:]+"
)
_CONTROL_TOKENS = re.compile(
    r"<(?=\|[^|<>\n]{1,64}\|>|｜[^｜<>\n]{1,64}｜>|</?SYS>>"
    rf"|/?(?:{_TAGGED})>)"
    rf"|\[(?=\|[^|\[\]\n]{{1,64}}\|\]|/?(?-i:{_BRACKETED})\]|/?INST\])",
    re.IGNORECASE,
)
_BLANK_LINES = re.compile(r"(?:[^\S\n]*\n)+")
_SURROGATES = re.compile("[\ud800-\udfff]")

_MAX_LINE = 200


def clean_text(text: str) -> str:
    """Return the text with `\\n` line breaks, without invisible characters and control tokens.

    Blank lines at the start and end are removed; the indentation of the first line stays. Cleaning
    a cleaned text changes nothing.
    """
    # Python splits at exactly the LINE_BREAKS, ten times faster than an expression.
    text = _without_tokens(_visible("\n".join(text.splitlines())).rstrip())
    blank = _BLANK_LINES.match(text)
    return text[blank.end() :] if blank else text


def clean_line(text: str) -> str:
    """Return the text on one line, without invisible characters, of at most 200 characters."""
    line = " ".join(_visible(re.sub(f"[{_JOINERS}]", "", text)).split())
    line = _without_tokens(line)
    return line if len(line) <= _MAX_LINE else line[: _MAX_LINE - 1].rstrip() + "…"


def _visible(text: str) -> str:
    text = _INVISIBLE.sub(_needed, text)
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def _needed(run: re.Match[str]) -> str:
    """Return the invisible characters that must stay: a presentation selector, then a joiner."""
    before, after = run.string[run.start() - 1 : run.start()], run.string[run.end() : run.end() + 1]
    visible = ""
    if run[0][0] in _PRESENTATION and (_is_symbol(before) or _is_keycap(before, after)):
        visible = run[0][0]
    joiner = next((char for char in run[0] if char in _JOINERS), "")
    return visible + joiner if _is_symbol(before) or _is_letter(before) else visible


def _is_symbol(char: str) -> bool:
    return _is_foreign(char) and (unicodedata.category(char)[0] == "S" or char in "‼⁉〰〽ℹ")


def _is_letter(char: str) -> bool:
    return _is_foreign(char) and unicodedata.category(char)[0] in "LMN"


def _is_foreign(char: str) -> bool:
    """Check for neither ASCII nor full-width forms, which tokens and markers are written with."""
    return char > "\x7f" and not "\uff00" <= char <= "\uffef"


def _is_keycap(before: str, after: str) -> bool:
    return before in tuple("0123456789#*") and after == "\u20e3"


def _without_tokens(text: str) -> str:
    return _CONTROL_TOKENS.sub(r"\g<0> ", text)
