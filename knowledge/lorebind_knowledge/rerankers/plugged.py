"""Rerankers that plugins make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.bridge import call
from lorebind_knowledge.configuration.plugged import PluginEnvironment, make_plugged
from lorebind_knowledge.errors import LorebindError, RerankerError
from lorebind_knowledge.rerankers.base import Reranker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.configuration import Environment
    from lorebind_knowledge.declarations.retrieval import RerankerBase


def make_plugged_reranker(declaration: RerankerBase, environment: Environment) -> Reranker:
    """The reranker of a plugin.

    Raises:
        RerankerError: it cannot be made with what was declared.
        PluginError: the plugin is broken.
    """
    confided = PluginEnvironment(environment)
    made = make_plugged("rerankers", declaration, confided, ("rerank",), RerankerError)
    return _RedactingReranker(made, confided)


class _RedactingReranker(Reranker):
    """Says what the plugin's exceptions say, without the secrets it was given."""

    def __init__(self, inner: Reranker, environment: PluginEnvironment) -> None:
        self._inner, self._environment = inner, environment

    async def rerank(self, question: str, texts: Sequence[str]) -> Sequence[float | None]:
        try:
            return await call(self._inner.rerank, question, texts)
        except LorebindError:
            raise
        except Exception as error:  # any plugin's own exceptions
            said = self._environment.say(error)
            raise RerankerError(f"the reranker failed: {said}") from error
