"""Embedders that plugins make."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from lorebind_knowledge.configuration.plugged import PluginEnvironment, make_plugged
from lorebind_knowledge.embedders.wrapper import EmbedderWrapper
from lorebind_knowledge.errors import EmbedderError, LorebindError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from lorebind_knowledge.configuration import Environment
    from lorebind_knowledge.declarations.base import Declaration
    from lorebind_knowledge.embedders.base import Embedder

R = TypeVar("R")

_MEMBERS = (
    *("fingerprint", "embed_documents", "embed_query", "batch_size"),
    *("count_truncated", "count_tokens"),
)


def make_plugged_embedder(declaration: Declaration, environment: Environment) -> Embedder:
    """The embedder of a plugin.

    Raises:
        EmbedderError: it cannot be made with what was declared.
        PluginError: the plugin is broken.
    """
    confided = PluginEnvironment(environment)
    made = make_plugged("embedders", declaration, confided, _MEMBERS, EmbedderError)
    return _RedactingEmbedder(made, confided)


class _RedactingEmbedder(EmbedderWrapper):
    """Says what the plugin's exceptions say, without the secrets it was given."""

    def __init__(self, inner: Embedder, environment: PluginEnvironment) -> None:
        super().__init__(inner)
        self._environment = environment

    async def around(self, name: str, texts: Sequence[str], ask: Callable[[], Awaitable[R]]) -> R:
        try:
            return await ask()
        except LorebindError:
            raise
        except Exception as error:  # any plugin's own exceptions
            said = self._environment.say(error)
            raise EmbedderError(f"embedder {self.fingerprint} failed: {said}") from error
