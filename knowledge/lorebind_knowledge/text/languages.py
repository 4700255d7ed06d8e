"""The languages whose word forms are matched, and the detection of a text's language."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection
from functools import cache
from importlib.resources import files
from typing import Any

from lorebind_config.languages import SNOWBALL
from lorebind_knowledge.text.splitting import words_of

DETECTED = ("en", "da", "de", "es", "fi", "fr", "hu", "it", "nl", "no", "pt", "ru", "sv", "tr")
"""The languages that can be detected: those with a list of stop words."""
DEFAULT = "en"
"""The language of a text whose language cannot be detected."""

_LOOKED_AT = 5_000
"""Number of characters at the start of a text that the detection reads."""
_LEAST, _CLEARLY = 4, 1.5
"""Another language than the default needs this many stop words, and this many times as many."""
_KANA = 9
"""Maximum number of Chinese characters per Japanese character in a Japanese text."""


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the words that build sentences but carry no topic; empty if the list is unknown."""
    if language not in DETECTED:
        return frozenset()
    text = (files(__package__) / "stop_words" / f"{language}.txt").read_text(encoding="utf-8")
    return frozenset(text.split())


@cache
def stemmer(language: str) -> Callable[[str], str]:
    """Return a function that removes the endings of a lower-case word. It is thread-safe."""
    from Stemmer import Stemmer

    lock = threading.Lock()  # a Snowball stemmer works for one thread at a time
    stems = Stemmer(SNOWBALL.get(language, SNOWBALL[DEFAULT]), 0)

    def stem(word: str) -> str:
        with lock:
            stemmed: str = stems.stemWord(word)
        return stemmed

    return stem


def detect_language(text: str) -> str:
    """Detect the language of a document by its script or its stop words."""
    if not text.isascii() and (unspaced := _unspaced_language(text[:_LOOKED_AT])):
        return unspaced
    counts = _counts(text, DETECTED)
    best = max(DETECTED, key=counts.__getitem__)
    enough = counts[best] >= max(_LEAST, _CLEARLY * counts[DEFAULT])
    return best if enough else DEFAULT


def detect_among(question: str, languages: Collection[str]) -> str | None:
    """Return which of these languages the question is written in; None if that is unclear."""
    if len(languages) == 1:
        return next(iter(languages))
    counts = _counts(question, sorted(languages))
    first, second = sorted(counts.values(), reverse=True)[:2]
    return max(counts, key=counts.__getitem__) if first > second else None


def _unspaced_language(text: str) -> str | None:
    """Return the language of most letters if their script has no spaces; otherwise None."""
    counts = {language: len(script.findall(text)) for language, script in _scripts().items()}
    letters = counts.pop("")
    if 2 * sum(counts.values()) <= letters:
        return None
    if _KANA * counts["ja"] >= counts["zh"]:  # Japanese texts contain Chinese characters too
        counts["ja"] += counts.pop("zh")
    return max(counts, key=counts.__getitem__)


@cache
def _scripts() -> dict[str, Any]:
    import regex

    written = {"ja": r"[\p{Hiragana}\p{Katakana}]", "ko": r"\p{Hangul}", "th": r"\p{Thai}"}
    every = {"": r"\p{L}", "zh": r"\p{Han}", **written}
    return {language: regex.compile(script) for language, script in every.items()}


def _counts(text: str, languages: Collection[str]) -> dict[str, int]:
    """Count the stop words of each language in a text."""
    languages_of = _languages_of_stop_words()
    counted = Counter(filter(languages_of.__contains__, words_of(text[:_LOOKED_AT])))
    counts = dict.fromkeys(languages, 0)
    for word, times in counted.items():
        for language in counts.keys() & languages_of[word]:
            counts[language] += times
    return counts


@cache
def _languages_of_stop_words() -> dict[str, set[str]]:
    languages: dict[str, set[str]] = {}
    for language in DETECTED:
        for word in stop_words(language):
            languages.setdefault(word, set()).add(language)
    return languages
