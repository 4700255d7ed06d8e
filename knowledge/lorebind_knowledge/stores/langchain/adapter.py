"""An adapter for LangChain's `VectorStore` that uses only methods that all classes have.

LangChain's stores embed texts themselves, but here the vectors already exist. A store therefore
gets an `Embeddings` object that returns them: for the texts being added, and for a text that stands
for the query."""

from __future__ import annotations

import copy
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from lorebind_config.errors import StoreError
from lorebind_knowledge.stores.langchain.recipe import EMBEDDING_PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langchain_core.documents import Document

    from lorebind_knowledge.stores.langchain.recipe import Recipe


SPACE = "lorebind_space"
"""The name of the metadata that tells the space of a document."""


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
    if not all(SPACE in document.metadata for document in some):
        raise StoreError(
            f"the {type(held).__name__} has documents that Lorebind did not add; pass an "
            "empty one, with a collection, table or file of its own"
        )
    return store


def _with_embeddings(held: Any, embedding: Embeddings, depth: int = 0) -> Any:
    """Copy an object, replacing each `Embeddings` in it and in its parts; None if it has none."""
    fields = getattr(held, "__dict__", {})
    package = type(held).__module__.partition(".")[0]
    changed: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, Embeddings):
            changed[name] = embedding
        elif not depth and type(value).__module__.partition(".")[0] == package:
            inner = _with_embeddings(value, embedding, depth + 1)
            if inner is not None:
                changed[name] = inner
    if not changed:
        return None
    replica = copy.copy(held)
    vars(replica).update(changed)
    return replica


class FixedVectors(Embeddings):
    """An `Embeddings` object that returns vectors that were made before."""

    def __init__(self, dimension: int) -> None:
        self._probe = [1.0] + [0.0] * (dimension - 1)
        self._by_text: dict[str, list[float]] = {}
        self.probing = True
        """Whether any text is accepted: a new store may embed one to learn the dimension."""

    @contextmanager
    def returning(self, vectors: Mapping[str, list[float]]) -> Iterator[None]:
        """Return these vectors for these texts inside the block."""
        self._by_text.update(vectors)
        try:
            yield
        finally:
            for text in vectors:
                self._by_text.pop(text, None)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        if text in self._by_text:
            return self._by_text[text]
        if self.probing:
            return self._probe
        raise StoreError(
            "the vector store embeds a text that it was not given; it changes "
            "texts before it embeds them, and cannot be used here"
        )


class Adapter:
    """One `VectorStore` for vectors of one dimension. Only one thread at a time may use it."""

    def __init__(self, recipe: Recipe, dimension: int, parts: Mapping[str, Any]) -> None:
        self._recipe = recipe
        self._embeddings = FixedVectors(dimension)
        self._by_vector = True
        parameter = recipe.embedding_parameter or EMBEDDING_PARAMETERS[0]
        store = recipe.create({parameter: self._embeddings, **parts})
        if not isinstance(store, VectorStore):
            raise StoreError(f"{recipe.name} is not a LangChain VectorStore")
        if type(store).delete is VectorStore.delete:
            raise StoreError(
                f"{recipe.name} has no method that deletes documents, so documents could never "
                "change; use another class"
            )
        self._embeddings.probing = False
        self._store = store

    def add(self, pairs: Sequence[tuple[Document, list[float]]]) -> None:
        """Add documents with their vectors; documents with existing ids stay as they are.

        Some classes refuse an existing id, FAISS only after it has stored the vector.
        """
        there = set(self._ids_there([str(document.id) for document, _ in pairs]) or ())
        for documents, vectors in _parts(pair for pair in pairs if pair[0].id not in there):
            self._add(documents, vectors)

    def _add(self, documents: list[Document], vectors: dict[str, list[float]]) -> None:
        ids = [str(document.id) for document in documents]
        with (
            self._embeddings.returning(vectors),
            self._recipe.redact_errors("cannot add documents"),
        ):
            returned = [str(id_) for id_ in self._store.add_documents(documents, ids=ids)]
        if returned != ids:
            self.delete(returned)
            raise StoreError(
                f"{self._recipe.name} assigns its own ids to documents instead of the given ones, "
                "so they cannot be found again; use another class"
            )

    def search(self, vector: list[float], k: int) -> list[Document]:
        """Return the `k` nearest documents, or all if there are fewer."""
        with self._recipe.redact_errors("cannot be searched"):
            if self._by_vector:
                try:
                    return self._store.similarity_search_by_vector(vector, k=k)
                except NotImplementedError:  # from LangChain's base class; search by text instead
                    self._by_vector = False
            name = f"lorebind query {uuid.uuid4().hex}"
            with self._embeddings.returning({name: vector}):
                return self._store.similarity_search(name, k=k)

    def get(self, ids: Sequence[str]) -> list[Document]:
        """Return the existing documents with these ids.

        Raises:
            NotImplementedError: the class cannot look up documents by id.
        """
        with self._recipe.redact_errors("cannot return documents by their ids"):
            try:
                return self._store.get_by_ids(list(ids)) if ids else []
            except NotImplementedError:  # from a base class; raised below with the name
                pass
        raise NotImplementedError(f"{self._recipe.name} cannot return documents by their ids")

    def delete(self, ids: Sequence[str]) -> None:
        """Delete documents; missing ones are ignored."""
        try:
            with self._recipe.redact_errors("cannot delete documents"):
                if ids and self._store.delete(ids=list(ids)) is False:
                    raise RuntimeError("it reports that they were not deleted")
        except StoreError:
            # Some classes refuse unknown ids, and then delete none of the others.
            there = self._ids_there(ids)
            if there is None or len(there) == len(ids):
                raise
            self.delete(there)

    def _ids_there(self, ids: Sequence[str]) -> list[str] | None:
        """Return the ids of existing documents, or None if the store cannot tell."""
        try:
            there = [str(document.id) for document in self.get(ids)]
        except (StoreError, NotImplementedError):
            return None
        return there if set(there) <= set(ids) else None  # some omit the ids of documents


def _parts(
    pairs: Iterable[tuple[Document, list[float]]],
) -> list[tuple[list[Document], dict[str, list[float]]]]:
    """Split documents into parts in which each text has one vector; return the vectors too."""
    parts: list[tuple[list[Document], dict[str, list[float]]]] = []
    for document, vector in pairs:
        for documents, vectors in parts:
            if vectors.setdefault(document.page_content, vector) == vector:
                documents.append(document)
                break
        else:
            parts.append(([document], {document.page_content: vector}))
    return parts
