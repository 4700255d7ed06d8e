"""Make a reranker from its declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.errors import RerankerError
from lorebind_config.reading.make_part import PartEnvironment, make_part
from lorebind_knowledge.bridge import call
from lorebind_knowledge.rerankers.base import Reranker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_config.declarations.retrieval import RerankerBase
    from lorebind_config.templates.environment import Environment


def make_reranker(declaration: RerankerBase, environment: Environment) -> Reranker:
    """Make the declared reranker.

    Raises:
        RerankerError: the configuration does not allow to make a reranker.
        PluginError: the plugin is broken.
    """
    own = PartEnvironment(environment)
    made: Reranker = make_part(
        "rerankers", declaration, own, ("rerank",), RerankerError, RedactingReranker
    )
    return made


class RedactingReranker(Reranker):
    """Removes the secrets that the reranker was given from the messages of its exceptions."""

    def __init__(
        self, inner: Reranker, environment: PartEnvironment, holder: object = None
    ) -> None:
        """
        Args:
            inner: the reranker.
            environment: knows the secrets that the reranker was given.
            holder: an object that holds secrets of its own, see `saying`.
        """
        self._inner, self._environment, self._holder = inner, environment, holder

    async def rerank(self, question: str, texts: Sequence[str]) -> Sequence[float | None]:
        with self._environment.saying(RerankerError, "the reranker failed", self._holder):
            return await call(self._inner.rerank, question, texts)
