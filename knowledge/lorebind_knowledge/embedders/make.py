"""Make an embedder from its declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from lorebind_config.errors import EmbedderError
from lorebind_config.reading.make_part import PartEnvironment, make_part
from lorebind_knowledge.embedders.wrapper import EmbedderWrapper

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from lorebind_config.declarations.embedders import EmbedderBase
    from lorebind_config.templates.environment import Environment
    from lorebind_knowledge.embedders.base import Embedder


_MEMBERS = (
    *("fingerprint", "embed_documents", "embed_query", "batch_size"),
    *("count_truncated", "count_tokens"),
)


def make_embedder(declaration: EmbedderBase, environment: Environment) -> Embedder:
    """Make the declared embedder; its libraries are loaded now or at the first call.

    Raises:
        EmbedderError: the declaration does not allow to make an embedder.
        PluginError: the plugin is broken.
    """
    own = PartEnvironment(environment)
    made: Embedder = make_part(
        "embedders", declaration, own, _MEMBERS, EmbedderError, RedactingEmbedder
    )
    return made


class RedactingEmbedder(EmbedderWrapper):
    """Removes the secrets that the embedder was given from the messages of its exceptions."""

    def __init__(self, inner: Embedder, environment: PartEnvironment) -> None:
        super().__init__(inner)
        self._environment = environment

    async def around(self, name: str, texts: Sequence[str], ask: Callable[[], Awaitable[R]]) -> R:
        with self._environment.saying(EmbedderError, f"embedder {self.fingerprint} failed"):
            return await ask()
