"""Stores that plugins make."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from lorebind_knowledge.configuration.plugged import PluginEnvironment, make_plugged
from lorebind_knowledge.errors import LorebindError, StoreError
from lorebind_knowledge.stores.wrapper import StoreWrapper

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lorebind_knowledge.configuration import Environment
    from lorebind_knowledge.declarations.vector_dbs import VectorDBBase
    from lorebind_knowledge.stores.base import VectorStore
    from lorebind_knowledge.stores.wrapper import StoreCall

R = TypeVar("R")

_METHODS = ("add", "nearest", "get", "delete", "count", "drop", "close")
_FLAGS = ("is_exact", "filters", "gives_vectors")
"""Whoever inherits `VectorStore` has them."""


def make_plugged_store(
    declaration: VectorDBBase, environment: Environment
) -> tuple[VectorStore, bool]:
    """The store of a plugin, and whether it keeps its data beyond the process.

    It does, unless it has an attribute `persistent` that says no: what Lorebind knows about its
    records is kept as long as they are.

    Raises:
        StoreError: it cannot be made with what was declared.
        PluginError: the plugin is broken.
    """
    confided = PluginEnvironment(environment)
    made = make_plugged("vector_dbs", declaration, confided, (*_METHODS, *_FLAGS), StoreError)
    return _RedactingStore(made, declaration.id, confided), bool(getattr(made, "persistent", True))


class _RedactingStore(StoreWrapper):
    """Says what the plugin's exceptions say, without the secrets it was given."""

    def __init__(self, inner: VectorStore, name: str, environment: PluginEnvironment) -> None:
        super().__init__(inner)
        self._name = name
        self._environment = environment

    async def around(self, asked: StoreCall, ask: Callable[[], Awaitable[R]]) -> R:
        try:
            return await ask()
        except LorebindError:
            raise
        except Exception as error:  # any plugin's own exceptions
            said = self._environment.say(error)
            raise StoreError(
                f"vector database {self._name!r} failed in {asked.name}: {said}"
            ) from error
