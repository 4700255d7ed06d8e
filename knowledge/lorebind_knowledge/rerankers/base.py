"""The reranker interface, and the function that all other code calls rerankers through."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from lorebind_config.errors import LorebindError, RerankerError
from lorebind_config.reading.make_part import PartEnvironment, make_part
from lorebind_config.redaction import redacted_message
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.plumbing.lanes import lane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_config.declarations.retrieval import RerankerBase
    from lorebind_config.templates import Environment


@runtime_checkable
class Reranker(Protocol):
    """Scores how well passages answer a question. Write the method as `def` or `async def`."""

    def rerank(
        self, question: str, texts: Sequence[str]
    ) -> Sequence[float | None] | Awaitable[Sequence[float | None]]:
        """Return a score from 0 to 1 per text, higher is better; None drops the text."""
        ...


async def rerank_texts(
    reranker: Reranker, question: str, texts: Sequence[str]
) -> list[float | None]:
    """Call a reranker, and check that it returns one score per text.

    Raises:
        RerankerError: the reranker failed or returned anything else.
    """
    try:
        with lane("wait"):
            scores = await call(reranker.rerank, question, texts)
        figures = [None if figure is None else float(figure) for figure in scores]
    except LorebindError:
        raise
    except Exception as error:  # any of the provider's own exceptions, without keys
        message = redacted_message(error, holder=reranker)
        raise RerankerError(f"the reranker failed: {message}") from error
    if len(figures) != len(texts):
        raise RerankerError(f"the reranker returned {len(figures)} scores for {len(texts)} texts")
    wrong = [f for f in figures if f is not None and not 0 <= f <= 1]
    if wrong:
        raise RerankerError(f"the reranker returned the score {wrong[0]}; expected 0 to 1")
    return figures


def logistic(figure: float) -> float:
    """Map any score to the range 0 to 1, in the same order."""
    return 1 / (1 + math.exp(-max(min(figure, 500.0), -500.0)))


def make_reranker(declaration: RerankerBase, environment: Environment) -> Reranker:
    """Make the declared reranker.

    Raises:
        RerankerError: the configuration does not allow to make a reranker.
        PluginError: the plugin is broken.
    """
    secrets = PartEnvironment(environment)
    reranker: Reranker = make_part(
        "rerankers", declaration, secrets, ("rerank",), RerankerError, RedactingReranker
    )
    return reranker


class RedactingReranker(Reranker):
    """Removes the secrets that the reranker was given from the messages of its exceptions."""

    def __init__(
        self, inner: Reranker, environment: PartEnvironment, holder: object = None
    ) -> None:
        """
        Args:
            inner: the reranker.
            environment: knows the secrets that the reranker was given.
            holder: an object that holds secrets of its own, see `redact_errors`.
        """
        self._inner, self._environment, self._holder = inner, environment, holder

    async def rerank(self, question: str, texts: Sequence[str]) -> Sequence[float | None]:
        with self._environment.redact_errors(RerankerError, "the reranker failed", self._holder):
            return await call(self._inner.rerank, question, texts)
