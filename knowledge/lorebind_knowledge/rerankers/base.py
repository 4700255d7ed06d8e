"""What a reranker is, and the function through which everything else calls one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from lorebind_knowledge.bridge import call, lane
from lorebind_knowledge.errors import LorebindError, RerankerError
from lorebind_knowledge.redaction import said_by

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence


@runtime_checkable
class Reranker(Protocol):
    """Says how well passages answer a question. Write the method `def` or `async def`."""

    def rerank(
        self, question: str, texts: Sequence[str]
    ) -> Sequence[float | None] | Awaitable[Sequence[float | None]]:
        """A figure from 0 to 1 for each text, higher is better; None leaves the text out."""
        ...


async def rerank_texts(
    reranker: Reranker, question: str, texts: Sequence[str]
) -> list[float | None]:
    """Ask a reranker, and make sure that what comes back is one figure for each text.

    Raises:
        RerankerError: it failed, or returned something else.
    """
    try:
        with lane("wait"):
            given = await call(reranker.rerank, question, texts)
        figures = [None if figure is None else float(figure) for figure in given]
    except LorebindError:
        raise
    except Exception as error:  # any provider's own exceptions, in words that hold no key
        said = said_by(error, holder=reranker)
        raise RerankerError(f"the reranker failed: {said}") from error
    if len(figures) != len(texts):
        raise RerankerError(f"the reranker gave {len(figures)} figures for {len(texts)} texts")
    wrong = [f for f in figures if f is not None and not 0 <= f <= 1]
    if wrong:
        raise RerankerError(f"the reranker gave the figure {wrong[0]}; expected 0 to 1")
    return figures


def logistic(figure: float) -> float:
    """A figure of any size as one from 0 to 1, in the same order."""
    return 1 / (1 + math.exp(-max(min(figure, 500.0), -500.0)))


def encodable(text: str) -> str:
    """The text with a question mark for each half of a character, which no tokenizer takes."""
    return text.encode("utf-8", "replace").decode()
