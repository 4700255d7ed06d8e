"""Objects of LangChain as declarations of a project that is built in Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.document_loaders import BaseLoader
    from langchain_core.documents import Document
    from langchain_core.vectorstores import VectorStore

DOCUMENTS = "documents"
"""The id of the knowledge base of documents that are given as objects."""


def existing(vector_store: VectorStore) -> dict[str, Any]:
    """A `VectorStore` of LangChain that others fill, to be searched as it stands.

    For `Project.build(vector_store=existing(store))`, and in declarations as
    `vector_dbs=[{"id": "theirs", **existing(store)}]`. Nothing is ever written into it.
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
    """Declarations with those of the objects, which come first and are called `default`.

    A vector store that others fill is a knowledge base as it stands: `documents`.
    """
    added: dict[str, list[Any]] = {}
    if embedder is not None:
        added["embedders"] = [{"id": "default", "provider": "langchain", "class": embedder}]
    if vector_store is not None:
        is_existing = isinstance(vector_store, Mapping)
        if is_existing and vector_store.get("existing") is not True:
            raise UsageError(
                "vector_store: expected a VectorStore of LangChain, or existing(store); what is "
                "declared belongs under 'vector_dbs'"
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
        # What is no list is left as it is, for its mistake to be told.
        added[key] = [*some, *declared] if isinstance(declared, list | tuple) else declared
    return {"name": "project", **declarations, **added}


def _loader(documents: Sequence[Document]) -> BaseLoader:
    """What gives documents whenever they are ingested, each under its source or else its id."""
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
