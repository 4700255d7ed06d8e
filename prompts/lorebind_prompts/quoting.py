"""Choose the sentences of passages that answer a question best, without a language model.

A unit scores by the content words of the question that it contains, rare words more than frequent
ones. It gets small additions for phrases, for its heading and source, for its neighbors, and for
the rank of its passage.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lorebind_knowledge.text.languages import detect_language
from lorebind_knowledge.text.terms import content_words, terms_of
from lorebind_prompts.units import Unit, split_units

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from lorebind_prompts.rendering.base import Passage

# Words that phrase a question, in addition to the stop words.
_ASKING = """
cannot done get give gives let like may me might much must need needed one please shall tell use
used using via want way us whose without yes show explain describe make makes
""".split()  # noqa: SIM905 - a list of words is read more easily so

# Words that tie a sentence to the previous one, and words that refer the reader elsewhere.
_HANGING = re.compile(
    r"(?:for example|in this case|as in|later|but|and|or|so|then|this|that|these|those|it|they|also"
    r"|still|however|otherwise|in the same way|you can also|other)\b",
    re.IGNORECASE,
)
_POINTER = re.compile(
    r"\b(?:(?:will|['’]ll) (?:see|learn|read)|have a look|take a look|see the|read more|learn more"
    r"|next (?:chapter|section|page)|(?:the|this|previous) (?:chapter|tutorial|section))\b",
    re.IGNORECASE,
)

# A unit must have this share of the question's weight, alone and with its heading.
_LEAST_ALONE = 0.12
_LEAST_COVERED = 0.34
_PHRASE = 0.08
_HEADING = 0.35
_NEIGHBOUR = 0.15
_RANK = 0.1
_COMFORTABLE_LENGTH = 280


@dataclass(frozen=True, slots=True)
class Quote:
    """A part of a passage, with the marker that stands for the passage."""

    marker: str
    units: tuple[Unit, ...]
    """One unit, or a sentence with the code or the list that it announces."""


@dataclass(slots=True)
class _Scored:
    passage: int
    position: int
    unit: Unit
    terms: list[str]
    """Its content words as the index stores them."""
    score: float = 0.0


def choose(
    question: str, passages: Sequence[Passage], *, max_quotes: int = 3, max_characters: int = 600
) -> list[Quote]:
    """Return the best quotes for a question, grouped by passage and in the order of the passage.

    The list is empty if no unit matches the question well enough. Other passages than the best one
    are quoted only if they are nearly as good.
    """
    scored = _score(question, passages)
    ranked = sorted(scored, key=lambda item: (-item.score, item.passage, item.position))
    chosen: list[_Scored] = []
    room = max_characters
    for item in ranked:
        if len(chosen) == max_quotes or item.score < _bar(item, ranked[0]):
            break
        if chosen and (len(item.unit.text) > room or _repeats(item, chosen)):
            continue
        chosen.append(item)
        room -= len(item.unit.text)
    order = list(dict.fromkeys(item.passage for item in chosen))
    chosen.sort(key=lambda item: (order.index(item.passage), item.position))
    return _quotes(chosen, passages, room)


def beginning(
    passages: Sequence[Passage], *, max_quotes: int = 3, max_characters: int = 600
) -> list[Quote]:
    """Quote the beginning of the best passage, for a question that shares no words with it."""
    for passage in passages:
        room, quotes = max_characters, list[Quote]()
        for unit in split_units(passage.content)[:max_quotes]:
            if quotes and len(unit.text) > room:
                break
            quotes.append(Quote(passage.marker, (unit,)))
            room -= len(unit.text)
        if quotes:
            return quotes
    return []


def _bar(item: _Scored, best: _Scored) -> float:
    return best.score * (0.55 if item.passage == best.passage else 0.85)


def _repeats(item: _Scored, chosen: Iterable[_Scored]) -> bool:
    terms, others = {*item.terms}, ({*other.terms} for other in chosen)
    return any(len(terms & other) > 0.8 * len(terms | other) for other in others)


def _score(question: str, passages: Sequence[Passage]) -> list[_Scored]:
    """Return all units that match something of the question, with their scores."""
    languages = [detect_language(passage.content) for passage in passages]
    question_terms = {language: _terms(question, language, _ASKING) for language in languages}
    units = [
        _Scored(number, position, unit, _terms(unit.text, languages[number]))
        for number, passage in enumerate(passages)
        for position, unit in enumerate(split_units(passage.content))
    ]
    frequency = Counter(term for unit in units for term in set(unit.terms))
    weights = {
        language: {term: _idf(len(units), frequency[term]) for term in terms}
        for language, terms in question_terms.items()
    }
    for unit in units:
        language, passage = languages[unit.passage], passages[unit.passage]
        weight, terms = weights[language], set(unit.terms)
        total = sum(weight.values())
        alone = sum(weight[term] for term in weight.keys() & terms)
        around = {*_terms(f"{passage.source}\n{unit.unit.heading}", language)} - terms
        beside = sum(weight[term] for term in weight.keys() & around)
        if alone < _LEAST_ALONE * total or alone + beside < _LEAST_COVERED * total or not total:
            continue
        pairs = {*itertools.pairwise(question_terms[language])} & {*itertools.pairwise(unit.terms)}
        unit.score = (alone + _HEADING * beside) / total
        unit.score += _PHRASE * len(pairs) + _RANK / (unit.passage + 1)
        unit.score *= _form(unit.unit)
    return _with_neighbours(units)


def _terms(text: str, language: str, omitted: Collection[str] = ()) -> list[str]:
    words = (word for word in content_words(text, [language]) if word not in omitted)
    return terms_of(words, language)


def _idf(units: int, frequency: int) -> float:
    # The root, because retrieval chose the passages for the question: a word that is frequent in
    # them is more often its topic than noise.
    return math.sqrt(math.log(1 + units / (frequency + 0.5)))


def _form(unit: Unit) -> float:
    """Return the factor for a unit's form: less for questions, dependent or awkwardly long text."""
    if unit.kind == "code":
        return 0.5
    factor: float = min(1.0, _COMFORTABLE_LENGTH / len(unit.text)) ** 0.3
    if unit.text.endswith("?"):
        factor *= 0.5
    if _HANGING.match(unit.text):
        factor *= 0.8
    if _POINTER.search(unit.text):
        factor *= 0.5
    return factor * (0.7 if len(unit.text.split()) < 5 else 1.0)


def _with_neighbours(units: list[_Scored]) -> list[_Scored]:
    """Raise the scores of units next to good ones, since answers span several sentences."""
    before = [unit.score for unit in units]
    for index, item in enumerate(units):
        for near in (index - 1, index + 1):
            if item.score and 0 <= near < len(units) and units[near].passage == item.passage:
                item.score += _NEIGHBOUR * before[near]
    return [unit for unit in units if unit.score]


def _quotes(chosen: Sequence[_Scored], passages: Sequence[Passage], room: int) -> list[Quote]:
    quotes: list[Quote] = []
    used = {(item.passage, item.position) for item in chosen}
    for item in chosen:
        units = [item.unit]
        if item.unit.text.endswith(":"):
            for position, unit in _announced(item, split_units(passages[item.passage].content)):
                if len(unit.text) > room or (item.passage, position) in used:
                    break
                units.append(unit)
                room -= len(unit.text)
                used.add((item.passage, position))
        quotes.append(Quote(passages[item.passage].marker, tuple(units)))
    return quotes


def _announced(item: _Scored, units: Sequence[Unit]) -> Iterable[tuple[int, Unit]]:
    """Yield what follows a sentence that ends in a colon: one code block, or the list items."""
    for position in range(item.position + 1, len(units)):
        unit = units[position]
        if unit.kind == "sentence":
            return
        yield position, unit
        if unit.kind == "code":
            return
