"""Use an existing LangChain `VectorStore` object to store vectors."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from langchain_core.embeddings import Embeddings

from lorebind_config.errors import StoreError
from lorebind_knowledge.stores.langchain.store import is_ours

if TYPE_CHECKING:
    from langchain_core.vectorstores import VectorStore


def adopted(held: VectorStore, embedding: Embeddings) -> VectorStore:
    """Return a copy of an object with another `Embeddings` and the same data.

    Raises:
        StoreError: the `Embeddings` of the object cannot be found, or the object has documents
            that Lorebind did not add.
    """
    store: VectorStore | None = _with_embeddings(held, embedding)
    if store is None:
        raise StoreError(
            f"the {type(held).__name__} stores its embeddings where they cannot be replaced; "
            "declare its class or a function that makes it instead"
        )
    try:
        some = store.similarity_search("documents", k=4)
    except Exception:  # any error of a class whose vectors have another dimension
        some = held.similarity_search("documents", k=4)
    if not all(map(is_ours, some)):
        raise StoreError(
            f"the {type(held).__name__} has documents that Lorebind did not add; pass an "
            "empty one, with a collection, table or file of its own"
        )
    return store


def _with_embeddings(held: Any, embedding: Embeddings, depth: int = 0) -> Any:
    """Copy an object, replacing each `Embeddings` in it and in its parts; None if it has none."""
    fields = getattr(held, "__dict__", {})
    own = type(held).__module__.partition(".")[0]
    changed: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, Embeddings):
            changed[name] = embedding
        elif not depth and type(value).__module__.partition(".")[0] == own:
            inner = _with_embeddings(value, embedding, depth + 1)
            if inner is not None:
                changed[name] = inner
    if not changed:
        return None
    made = copy.copy(held)
    vars(made).update(changed)
    return made
