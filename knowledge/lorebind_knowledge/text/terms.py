"""The stems of a text's words, in the form that every database stores.

In scripts without spaces between words, as in Chinese, Japanese and Thai, every two adjacent
characters make a word. Korean, whose words change their endings, is cut in the same way.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable
from functools import cache
from itertools import chain, pairwise
from typing import Any

from lorebind_knowledge.text.languages import detect_among, stemmer, stop_words
from lorebind_knowledge.text.splitting import words_of

VERSION = 1
"""Increase it whenever a text is split into other words than before, by our code or by a new
release of the stemmer. Catalogs then split their texts again. Increase SCHEMA_VERSION too, so that
an earlier Lorebind refuses the catalog instead of removing the wrong words."""

_REMEMBERED = 50_000
"""Maximum number of cached words per language: enough for most of the words in most texts."""
_FIRST_MARK, _LAST_MARK = "\u0300", "\u036f"
_UNSPACED = (
    r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\u30fc\u3005"
)


def index_terms(text: str, language: str) -> str:
    """Return the words of a text in their stored form, with repeats, separated by spaces.

    The characters of a run without spaces are also stored one by one, for one-character questions.
    """
    stems = _stems(language)
    if len(stems) > _REMEMBERED:
        stems.clear()
    return " ".join(map(stems.__getitem__, words_of(text)))


def content_words(text: str, languages: Collection[str]) -> list[str]:
    """Return the words of a text without stop words and single ASCII letters and digits.

    A single character outside ASCII stays, since it may be a whole word.

    Args:
        text: any text, such as a question.
        languages: the languages that it may be written in; at least one.
    """
    language = detect_among(text, languages)
    unwanted = frozenset().union(*map(stop_words, [language] if language else languages))
    return [
        word for word in words_of(text) if word not in unwanted and (len(word) > 1 or word > "\x7f")
    ]


def terms_of(words: Iterable[str], language: str) -> list[str]:
    """Return the stored forms to search for of some words, in order."""
    return [term for word in words for term in _forms(word, language)]


def query_terms(question: str, languages: Collection[str]) -> Counter[str]:
    """Return the words of a question to search for, with their counts.

    A word that occurs twice counts twice: long questions repeat their topic, and BM25 weights it
    accordingly.

    Args:
        question: any text.
        languages: the languages of the texts to search; at least one.
    """
    terms: Counter[str] = Counter()
    for word, times in Counter(content_words(question, languages)).items():
        forms: Counter[str] = Counter()
        for language in languages:
            forms |= Counter(_forms(word, language))
        for form, within in forms.items():
            terms[form] += within * times
    return terms


def without_accents(word: str) -> str:
    """Return a word without the accents of its letters."""
    parts = unicodedata.normalize("NFD", word)
    plain = "".join(char for char in parts if not _FIRST_MARK <= char <= _LAST_MARK)
    return unicodedata.normalize("NFC", plain)


class _Stems(dict[str, str]):
    """A cache that maps words to their stored forms, which are separated by spaces."""

    def __init__(self, language: str) -> None:
        self._stem = stemmer(language)

    def __missing__(self, word: str) -> str:
        if word.isascii():
            stored = self._stem(word)
        else:
            stored = " ".join(chain.from_iterable(map(self._stored, _runs(word))))
        self[word] = stored
        return stored

    def _stored(self, run: str) -> Iterable[str]:
        if not _is_unspaced(run):
            return (without_accents(self._stem(run)),)
        letters = _letters(run)
        return [*letters, *map("".join, pairwise(letters))]


@cache
def _stems(language: str) -> _Stems:
    return _Stems(language)


def _forms(word: str, language: str) -> Iterable[str]:
    """Return the stored forms of a question's word: for a run without spaces its pairs, if any."""
    if word.isascii():
        return (_stems(language)[word],)
    forms: list[str] = []
    for run in _runs(word):
        letters = _letters(run) if _is_unspaced(run) else []
        pairs = list(map("".join, pairwise(letters)))
        forms += pairs or letters or [_stems(language)[run]]
    return forms


def _runs(word: str) -> list[str]:
    """Cut a word where it changes between a script with spaces and one without."""
    runs: list[str] = _patterns()[0].findall(word)
    return runs


def _is_unspaced(run: str) -> bool:
    return _patterns()[1].match(run) is not None


def _letters(run: str) -> list[str]:
    """Return the characters of a run, each with its marks."""
    letters: list[str] = _patterns()[2].findall(run)
    return letters


@cache
def _patterns() -> tuple[Any, Any, Any]:
    import regex

    return (
        regex.compile(rf"(?:[{_UNSPACED}]\p{{M}}*)+|(?:(?![{_UNSPACED}]).)+"),
        regex.compile(rf"[{_UNSPACED}]"),
        regex.compile(r".\p{M}*"),
    )
