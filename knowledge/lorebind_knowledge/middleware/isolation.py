"""Defence in depth: what a store gives belongs to the knowledge base that was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from lorebind_knowledge.bridge import call
from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.identity import chunk_id
from lorebind_knowledge.middleware.base import Wrapper
from lorebind_knowledge.stores.checks import named
from lorebind_knowledge.stores.collection import COLLECTION_SCOPE
from lorebind_knowledge.stores.wrapper import StoreWrapper

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from lorebind_knowledge.namespace import IndexKey
    from lorebind_knowledge.stores.base import VectorStore
    from lorebind_knowledge.stores.wrapper import StoreCall

R = TypeVar("R")

_FEW = 8
_MANY = range(_FEW, 100_000)
"""How many times one document may hold one passage: a stranger's is found out in so many tries,
which take a fraction of a second."""


class Isolation(Wrapper):
    """Compares the id of each passage with what it must be: a hash over whose passage it is.

    Tenant, project, scope and knowledge base are part of an id, and so are document and text. A
    store that mixes up two of them, by a fault or a forged row, gives an id that is none of the
    asked one's.
    """

    def store(self, inner: VectorStore) -> VectorStore:
        return _Isolated(inner)


class _Isolated(StoreWrapper):
    async def around(self, asked: StoreCall, ask: Callable[[], Awaitable[R]]) -> R:
        given = await ask()
        # Of what is added by hand the ids are the caller's own.
        if asked.index is not None and asked.index.namespace.scope != COLLECTION_SCOPE:
            for name, uri, text in _passages(given):
                # Nearly always the first is the one: a document seldom says the same twice.
                few = _belongs(name, uri, text, asked.index, range(_FEW))
                if not few and not await call(_belongs, name, uri, text, asked.index, _MANY):
                    raise StoreError(
                        f"{named(asked.index)}: {asked.name} gave the passage {name[:16]} of "
                        f"{uri!r}, which is not of this index; nothing of the answer was used"
                    )
        return given


def _passages(given: Any) -> Iterator[tuple[str, str, str]]:
    """Id, document and text of what a call of a store returned."""
    if isinstance(given, list):
        for match in given:
            yield match.id, match.metadata.get("uri", ""), match.text
    elif isinstance(given, dict):
        for name, record in given.items():
            yield name, record.uri, record.text


def _belongs(name: str, uri: str, text: str, index: IndexKey, ordinals: range) -> bool:
    return any(chunk_id(index.namespace, uri, text, ordinal) == name for ordinal in ordinals)
