"""Questions with known answers, which a default of the search must still find.

Each guards against a mistake that the figures of test collections do not show. The questions are
the same in every run.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lorebind_knowledge.embedders.base import makes_vectors
from lorebind_knowledge.evaluation.dataset import Dataset
from lorebind_knowledge.evaluation.metrics import reciprocal_rank
from lorebind_knowledge.retrieval.search import search

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from lorebind_config.declarations.retrieval import RetrievalDeclaration
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase

_SEED = 7
_RAREST, _SAID = 12, 3
_LOOKED_AT = 10
_SMALL = 10


def rare_words(texts: Mapping[str, str], most: int = 200) -> Dataset:
    """Return questions of three of the twelve rarest words of a document, which is the answer.

    Each of the words also occurs in another document. Searching by words nearly always finds the
    right document, so vectors must not outvote them.

    Args:
        texts: whole documents by their names.
        most: the maximum number of documents.
    """
    words = {name: set(re.findall(r"[a-z]{3,}", text.lower())) for name, text in texts.items()}
    documents = Counter(word for parts in words.values() for word in parts)
    chance = random.Random(_SEED)
    queries, relevant = {}, {}
    for name in chance.sample(sorted(words), min(most, len(words))):
        shared = sorted((documents[word], word) for word in words[name] if documents[word] >= 2)
        rarest = [word for _, word in shared[:_RAREST]]
        if len(rarest) >= _SAID:
            queries[name] = " ".join(chance.sample(rarest, _SAID))
            relevant[name] = frozenset([name])
    return Dataset(queries, relevant)


def thinned(judged: Dataset) -> tuple[Dataset, frozenset[str]]:
    """Return the same questions with one relevant document each, and the documents to remove.

    This exposes strategies that only work if relevant documents are similar to each other.
    """
    chance = random.Random(_SEED)
    chosen = {name: chance.choice(sorted(uris)) for name, uris in judged.relevant.items()}
    away = frozenset().union(*judged.relevant.values()) - set(chosen.values())
    return replace(judged, relevant={name: frozenset([uri]) for name, uri in chosen.items()}), away


def long(judged: Dataset) -> Dataset:
    """Return the questions of 20 words or more, of which no passage has most."""
    texts = judged.queries
    relevant = {
        name: uris for name, uris in judged.relevant.items() if len(texts[name].split()) >= 20
    }
    return replace(judged, relevant=relevant)


def small(judged: Dataset, documents: Collection[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each question with one relevant document and the ten documents of a small collection.

    Most projects begin with a few files. There, few words of a question occur at all.
    """
    chance = random.Random(_SEED)
    for name, question in judged.queries.items():
        if right := sorted(judged.relevant.get(name, frozenset()).intersection(documents)):
            uri = chance.choice(right)
            others = chance.sample(sorted(set(documents).difference(right)), _SMALL - 1)
            yield question, uri, [uri, *others]


class Found(NamedTuple):
    """The results of searches for headings."""

    reciprocal_ranks: Sequence[float]
    """The reciprocal rank of each heading, for the first passage of its section among ten."""
    documents: tuple[float, float]
    """The average number of documents among the first five and the first ten passages."""

    @property
    def mrr(self) -> float:
        return float(np.mean(self.reciprocal_ranks))


def headings(paths: Iterable[str], most: int = 250) -> list[str]:
    """Return headings of three words or more.

    Args:
        paths: the metadata `heading` of passages.
        most: the maximum number of headings.
    """
    headings = {heading for path in paths for heading in path.split(" > ")}
    long = sorted(heading for heading in headings if len(heading.split()) >= 3)
    return random.Random(_SEED).sample(long, min(most, len(long)))


async def ask_headings(
    kb: IndexedKnowledgeBase, headings: Sequence[str], settings: RetrievalDeclaration
) -> Found:
    """Search for headings; a passage of the section is the answer."""
    ranks, few, more = [], [], []
    for heading in headings:
        matches = await search((kb,), heading, settings.model_copy(update={"top_k": _LOOKED_AT}))
        right = [
            match.id
            for match in matches
            if _is_of(match.text, match.metadata.get("heading"), heading)
        ]
        ranks.append(reciprocal_rank([match.id for match in matches], right))
        uris = [match.metadata["uri"] for match in matches]
        few.append(len(set(uris[:5])))
        more.append(len(set(uris)))
    return Found(ranks, (float(np.mean(few)), float(np.mean(more))))


def _is_of(text: str, path: str | None, heading: str) -> bool:
    """Check whether a passage is under a heading, or contains it."""
    if heading in (path or "").split(" > "):
        return True
    return any(line.lstrip("#* ").startswith(heading) for line in text.splitlines())


async def best_relevances(kb: IndexedKnowledgeBase, questions: Iterable[str]) -> list[float]:
    """Return for each question the cosine of the nearest passage, or the best `coverage`."""
    strategy = "similarity" if makes_vectors(kb.embedder) else "lexical"
    nearest = kb.retrieval.model_copy(update={"strategy": strategy, "top_k": 1})
    results = [await search((kb,), question, nearest) for question in questions]
    return [max((match.relevance for match in result), default=0.0) for result in results]


def separation(inside: Sequence[float], foreign: Sequence[float]) -> float:
    """Return the probability that an own question scores above a foreign one: the area under
    ROC."""
    pairs = np.subtract.outer(inside, foreign)
    return float((pairs > 0).mean() + (pairs == 0).mean() / 2)
