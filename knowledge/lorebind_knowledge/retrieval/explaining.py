"""Why passages were found: the terms that question and passage have in common."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from lorebind_knowledge.embedders.sparse.base import embed_query
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.records import MatchingTerm
from lorebind_knowledge.text.languages import detect_language
from lorebind_knowledge.text.splitting import word_spans, words_of
from lorebind_knowledge.text.terms import content_words, terms_of, without_accents

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from lorebind_knowledge.index.view import View
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase
    from lorebind_knowledge.records import DocumentMatch, MatchingTerms

_MOST_TERMS = 8
_DECIMALS = 3
_PIECE = "##"
"""Begins the name of a term that continues a word, in the vocabularies of BERT."""


async def matching_terms(
    kb: IndexedKnowledgeBase, question: str, matches: Sequence[DocumentMatch]
) -> MatchingTerms:
    """Return the terms that the passages of a knowledge base have in common with the question.

    Matches of other knowledge bases are ignored.

    Raises:
        EmbedderError, StoreError: a part is unavailable.
    """
    sparse = kb.sparse
    of_kb = [match for match in matches if match.metadata["kb_id"] == kb.id]
    ids = [match.id for match in of_kb if match.scores.get("terms")]
    if sparse is None or not ids:
        return {}
    terms = await embed_query(sparse, question)

    def read(view: View) -> dict[str, dict[int, float]]:
        looked_up = view.terms(terms)
        return {name: looked_up.shares(chunk.number) for name, chunk in view.named(ids).items()}

    with kb.threads.lane("search"):
        shares = await call(kb.index.read, kb.namespace, read)
    numbers = terms.ids.tolist()
    names = dict(zip(numbers, await call(sparse.terms, numbers), strict=True))
    in_question = _in_question(question, names.values())
    return {
        name: {
            names[term] or str(term): MatchingTerm(
                round(share / sum(shares[name].values()), _DECIMALS),
                names[term] not in in_question,
            )
            for term, share in itertools.islice(shares[name].items(), _MOST_TERMS)
        }
        for name in ids
        if shares.get(name)
    }


def highlights(question: str, text: str) -> list[tuple[int, int]]:
    """Return where a text has words of the question, in any of their forms, as offsets."""
    language = detect_language(question)
    stems = set(terms_of(content_words(question, [language]), language))
    return [
        (start, end)
        for start, end in word_spans(text)
        if stems.intersection(terms_of(words_of(text[start:end]), language))
    ]


def _in_question(question: str, names: Iterable[str]) -> set[str]:
    """Return the names of terms that are words of the question, or pieces of its words."""
    known = set(filter(None, names))
    longest = max(map(len, known), default=0)
    in_question = set()
    for word in words_of(question):
        if word in known:
            in_question.add(word)
        else:
            in_question |= _pieces(without_accents(word), known, longest)
    return in_question


def _pieces(word: str, known: Collection[str], longest: int) -> set[str]:
    """Split a word as BERT does: at each place, the longest piece.

    Pieces to which the model gave no weight are not known, so they are skipped letter by letter.
    """
    pieces = set()
    at = 0
    while at < len(word):
        prefix = _PIECE if at else ""
        ends = range(min(len(word), at + longest), at, -1)
        end = next((end for end in ends if prefix + word[at:end] in known), None)
        if end:
            pieces.add(prefix + word[at:end])
        at = end or at + 1
    return pieces
