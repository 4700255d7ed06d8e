"""Turn LangChain objects into declarations of a project that is built in Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lorebind_config.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.document_loaders import BaseLoader
    from langchain_core.documents import Document
    from langchain_core.vectorstores import VectorStore

DOCUMENTS = "documents"
"""The id of the knowledge base that holds documents passed as objects."""


def existing(vector_store: VectorStore) -> dict[str, Any]:
    """Declare a LangChain `VectorStore` that others fill, so that Lorebind only searches it.

    Use the result in `Project.build(vector_store=existing(store))`, or in declarations as
    `vector_dbs=[{"id": "theirs", **existing(store)}]`. Lorebind never writes to the store.
    """
    return {"type": "langchain", "class": vector_store, "existing": True}


def with_objects(
    declarations: Mapping[str, Any],
    *,
    embedder: Any = None,
    vector_store: Any = None,
    model: Any = None,
    documents: Sequence[Document] | None = None,
) -> dict[str, Any]:
    """Add declarations of the objects, each first in its list and with the id `default`.

    A vector store that others fill also adds the knowledge base `documents`, if none is declared.
    """
    added: dict[str, list[Any]] = {}
    if embedder is not None:
        added["embedders"] = [{"id": "default", "provider": "langchain", "class": embedder}]
    if vector_store is not None:
        is_existing = isinstance(vector_store, Mapping)
        if is_existing and vector_store.get("existing") is not True:
            raise UsageError(
                "vector_store: expected a VectorStore of LangChain, or existing(store); write "
                "declarations under 'vector_dbs'"
            )
        declared = vector_store if is_existing else {"type": "langchain", "class": vector_store}
        added["vector_dbs"] = [{"id": "default", **declared}]
        if is_existing and documents is None and not declarations.get("knowledge_bases"):
            added["knowledge_bases"] = [{"id": DOCUMENTS}]
            added["knowledge"] = [{"id": DOCUMENTS}]
    if model is not None:
        added["models"] = [{"id": "default", "provider": "langchain", "model": model}]
    if documents is not None:
        source = {"type": "langchain", "class": _loader(documents)}
        added["knowledge_bases"] = [{"id": DOCUMENTS, "sources": [source]}]
        added["knowledge"] = [{"id": DOCUMENTS}]
    for key, some in added.items():
        declared = declarations.get(key, [])
        # A value that is not a list stays unchanged, so that validation reports it.
        added[key] = [*some, *declared] if isinstance(declared, list | tuple) else declared
    return {"name": "project", **declarations, **added}


def _loader(documents: Sequence[Document]) -> BaseLoader:
    """Return a loader of these documents, each identified by its source or else by its id."""
    from langchain_core.document_loaders import BaseLoader
    from langchain_core.documents import Document

    for document in documents:
        if not isinstance(document, Document):
            raise UsageError(
                f"documents: expected documents of LangChain, got a {type(document).__name__}"
            )

    class Documents(BaseLoader):
        def lazy_load(self) -> Any:
            for document in documents:
                named = {"source": document.id} if document.id else {}
                yield document.model_copy(update={"metadata": {**named, **document.metadata}})

    return Documents()
