"""Making text that others wrote harmless to show: one kind of line break, nothing invisible.

Invisible characters hide text that a model still reads, cut words in two, or reorder what a reader
sees. Taken out are the controls, and what Unicode calls Default_Ignorable_Code_Point: zero widths,
directions, tags, variation selectors, fillers, and what is reserved for more of them. These stay
where writing needs them: U+200C and U+200D behind a letter that is not ASCII or a symbol, as in
Persian, Indic scripts and emoji; U+FE0E and U+FE0F behind a symbol or in a keycap.

What open models write roles, tools and images with, `<|im_start|>` or `[TOOL_CALLS]`, gets a blank
after its first character: servers that look for such tokens in any text would take a passage's for
their own. No word is lost.
"""

from __future__ import annotations

import re
import unicodedata

_LINE_BREAKS = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")

_JOINERS = "\u200c\u200d"
_PRESENTATION = "\ufe0e\ufe0f"
_INVISIBLE = re.compile(
    "["
    "\x00-\x08\x0e-\x1f\x7f-\x9f"  # control characters that are no line break and no tab
    # Default_Ignorable_Code_Point of Unicode 17, DerivedCoreProperties.txt
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\ufff9-\ufffb"  # annotations
    "]+"
)

_BRACKETED = (  # Mistral's, ChatGLM's and BERT's; in capitals only, as they are tokens
    "INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|CALL_ID|ARGS|THINK"
    "|MODEL_SETTINGS|IMG|IMG_BREAK|IMG_END|AUDIO|BEGIN_AUDIO|TRANSCRIBE|PREFIX|MIDDLE|SUFFIX"
    "|gMASK|sMASK|MASK|CLS|SEP|PAD|UNK|BOS|EOS"
)
_TAGGED = (  # Llama's, Gemma's, Qwen's, ChatGLM's, InternLM's, T5's and Seed's
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
_SURROGATES = re.compile("[\ud800-\udfff]")

_MAX_LINE = 200


def clean_text(text: str) -> str:
    """The text with `\\n` for every line break, without invisible characters and control tokens.

    Blank lines around it go, the indentation of the first line stays. Doing it twice changes
    nothing more.
    """
    text = _without_tokens(_visible(_LINE_BREAKS.sub("\n", text)).rstrip())
    return re.sub(r"\A(?:[^\S\n]*\n)+", "", text)


def clean_line(text: str) -> str:
    """The text on one line, without invisible characters, at most 200 characters long."""
    line = " ".join(_visible(re.sub(f"[{_JOINERS}]", "", text)).split())
    line = _without_tokens(line)
    return line if len(line) <= _MAX_LINE else line[: _MAX_LINE - 1].rstrip() + "…"


def _visible(text: str) -> str:
    return _SURROGATES.sub("\ufffd", _INVISIBLE.sub(_needed, text))


def _needed(run: re.Match[str]) -> str:
    """What must stay of a run of invisible characters: a presentation, then a joiner."""
    before, after = run.string[run.start() - 1 : run.start()], run.string[run.end() : run.end() + 1]
    kept = ""
    if run[0][0] in _PRESENTATION and (_is_symbol(before) or _is_keycap(before, after)):
        kept = run[0][0]
    joiner = next((char for char in run[0] if char in _JOINERS), "")
    return kept + joiner if _is_symbol(before) or _is_letter(before) else kept


def _is_symbol(char: str) -> bool:
    return _is_foreign(char) and (unicodedata.category(char)[0] == "S" or char in "‼⁉〰〽ℹ")


def _is_letter(char: str) -> bool:
    return _is_foreign(char) and unicodedata.category(char)[0] in "LMN"


def _is_foreign(char: str) -> bool:
    """Neither ASCII nor its full width: what tokens and markers are written with."""
    return char > "\x7f" and not "\uff00" <= char <= "\uffef"


def _is_keycap(before: str, after: str) -> bool:
    return before in tuple("0123456789#*") and after == "\u20e3"


def _without_tokens(text: str) -> str:
    return _CONTROL_TOKENS.sub(r"\g<0> ", text)
