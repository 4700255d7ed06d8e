"""The same passage, found more than once: in several documents, or in several knowledge bases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lorebind_prompts.cleaning import clean_text
from lorebind_prompts.rendering.base import source_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lorebind_prompts.contexts import RetrievedContext

_SOURCES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that may be shown, once, however often it was found."""

    context: RetrievedContext
    """Of those found, the one with the best score, the first of equals."""
    content: str
    """Its text, cleaned; empty when there is nothing to show."""
    also: list[RetrievedContext] = field(default_factory=list)
    """The others."""

    @property
    def sources(self) -> list[str]:
        """Where it comes from, as its entry says it: three places at most, the best first."""
        places = [source_line(one.metadata) for one in (self.context, *self.also)]
        return list(dict.fromkeys(places))[:_SOURCES_SHOWN]


def candidates_of(contexts: Iterable[RetrievedContext]) -> list[Candidate]:
    """The passages, best score first, equal scores in the order given, each one once.

    The same passage is what has the same id, or the same text but for its blanks.
    """
    candidates: list[Candidate] = []
    known: dict[str, Candidate] = {}
    for context in sorted(contexts, key=lambda one: one.score, reverse=True):
        content = clean_text(context.content)
        keys = [f"text {' '.join(content.split())}"]
        keys += [f"id {context.id}"] if context.id else []
        same = next((known[key] for key in keys if key in known), None)
        if same is None:
            same = Candidate(context, content)
            candidates.append(same)
        else:
            same.also.append(context)
        for key in keys:
            known.setdefault(key, same)
    return candidates
