"""The languages whose words are found in all their forms, and how a text's language is told."""

from __future__ import annotations

import threading
from collections import Counter
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.bm25.splitting import words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

SNOWBALL: Mapping[str, str] = {
    "ar": "arabic",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "eo": "esperanto",
    "es": "spanish",
    "et": "estonian",
    "eu": "basque",
    "fa": "persian",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "ne": "nepali",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}
"""What Snowball calls them, by their codes in ISO 639-1."""
DETECTED = ("en", "da", "de", "es", "fi", "fr", "hu", "it", "nl", "no", "pt", "ru", "sv", "tr")
"""Those that a text is told apart by: the ones whose stop words are known."""
UNSPACED = ("ja", "ko", "th", "zh")
"""Languages whose words are cut into pairs of characters, whatever a text's language is."""
AUTO = "auto"
"""The setting by which the language is told from each document."""
DEFAULT = "en"
"""The language of a text that does not say enough to tell."""

_LOOKED_AT = 5_000
"""Characters at the start of a text, from which its language is detected."""
_LEAST, _CLEARLY = 4, 1.5
"""A language other than the default needs so many stop words, and so many times more of them."""
_KANA = 9
"""How many Chinese characters a Japanese text may have for each character of its own."""


@cache
def stop_words(language: str) -> frozenset[str]:
    """Words that say how a sentence is built rather than what it is about; empty if not known."""
    if language not in DETECTED:
        return frozenset()
    text = (files(__package__) / "stop_words" / f"{language}.txt").read_text(encoding="utf-8")
    return frozenset(text.split())


@cache
def stemmer(language: str) -> Callable[[str], str]:
    """What takes the endings off a word in lower case."""
    from Stemmer import Stemmer

    lock = threading.Lock()  # one of Snowball's works for one thread at a time
    stems = Stemmer(SNOWBALL.get(language, SNOWBALL[DEFAULT]), 0)

    def stem(word: str) -> str:
        with lock:
            found: str = stems.stemWord(word)
        return found

    return stem


def detect_language(text: str) -> str:
    """The language that a document is written in, told by its script or its stop words."""
    if not text.isascii() and (unspaced := _unspaced_language(text[:_LOOKED_AT])):
        return unspaced
    counts = _counts(text, DETECTED)
    best = max(DETECTED, key=counts.__getitem__)
    enough = counts[best] >= max(_LEAST, _CLEARLY * counts[DEFAULT])
    return best if enough else DEFAULT


def detect_among(question: str, languages: Collection[str]) -> str | None:
    """Which of these languages a question is asked in; None if it does not say."""
    if len(languages) == 1:
        return next(iter(languages))
    counts = _counts(question, sorted(languages))
    first, second = sorted(counts.values(), reverse=True)[:2]
    return max(counts, key=counts.__getitem__) if first > second else None


def _unspaced_language(text: str) -> str | None:
    """The language of most of the letters, if they are of a script without spaces."""
    counts = {one: len(script.findall(text)) for one, script in _scripts().items()}
    letters = counts.pop("")
    if 2 * sum(counts.values()) <= letters:
        return None
    if _KANA * counts["ja"] >= counts["zh"]:  # Japanese has Chinese characters besides its own
        counts["ja"] += counts.pop("zh")
    return max(counts, key=counts.__getitem__)


@cache
def _scripts() -> dict[str, Any]:
    import regex

    written = {"ja": r"[\p{Hiragana}\p{Katakana}]", "ko": r"\p{Hangul}", "th": r"\p{Thai}"}
    every = {"": r"\p{L}", "zh": r"\p{Han}", **written}
    return {language: regex.compile(script) for language, script in every.items()}


def _counts(text: str, languages: Collection[str]) -> dict[str, int]:
    """How many stop words of each language a text has."""
    known = _languages_of_stop_words()
    found = Counter(filter(known.__contains__, words_of(text[:_LOOKED_AT])))
    counts = dict.fromkeys(languages, 0)
    for word, times in found.items():
        for language in counts.keys() & known[word]:
            counts[language] += times
    return counts


@cache
def _languages_of_stop_words() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for language in DETECTED:
        for word in stop_words(language):
            found.setdefault(word, set()).add(language)
    return found
