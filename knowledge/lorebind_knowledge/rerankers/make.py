"""From a declared reranker to the object that orders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.bridge import call
from lorebind_knowledge.configuration.make_part import PartEnvironment, make_part
from lorebind_knowledge.errors import RerankerError
from lorebind_knowledge.rerankers.base import Reranker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.configuration import Environment
    from lorebind_knowledge.declarations.retrieval import RerankerBase


def make_reranker(declaration: RerankerBase, environment: Environment) -> Reranker:
    """The reranker that a declaration names.

    Raises:
        RerankerError: it cannot be made with the configuration given.
        PluginError: the plugin is broken.
    """
    own = PartEnvironment(environment)
    made: Reranker = make_part(
        "rerankers", declaration, own, ("rerank",), RerankerError, RedactingReranker
    )
    return made


class RedactingReranker(Reranker):
    """Says what the exceptions of the reranker within say, without the secrets it was given."""

    def __init__(
        self, inner: Reranker, environment: PartEnvironment, holder: object = None
    ) -> None:
        """
        Args:
            inner: the reranker.
            environment: what it was told.
            holder: what keeps secrets of its own, see `saying`.
        """
        self._inner, self._environment, self._holder = inner, environment, holder

    async def rerank(self, question: str, texts: Sequence[str]) -> Sequence[float | None]:
        with self._environment.saying(RerankerError, "the reranker failed", self._holder):
            return await call(self._inner.rerank, question, texts)
