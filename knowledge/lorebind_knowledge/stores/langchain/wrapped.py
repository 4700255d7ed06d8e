"""A live `VectorStore` of LangChain, asked only for what each of them has.

LangChain's stores embed for themselves; here the vectors are there already. So a store is given an
`Embeddings` that hands them over: for the texts that are being added, and for the words that stand
for a query.
"""

from __future__ import annotations

import base64
import inspect
import json
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from lorebind_knowledge.errors import LorebindError, StoreError
from lorebind_knowledge.redaction import said_by
from lorebind_knowledge.stores.matrix import unit_vector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from lorebind_knowledge.records import Vector
    from lorebind_knowledge.stores.checks import Entry

_DOCUMENT = "lorebind_document"
_VECTOR = "lorebind_vector"
_METADATA = "lorebind_metadata"
EMBEDDING_PARAMETERS = ("embedding", "embeddings", "embedding_function", "embedding_service")
"""The names by which classes take their `Embeddings`."""
_DELETED_AT_ONCE = 500
_NAMED = 3


@dataclass(frozen=True, slots=True, eq=False)
class Passage:
    """A document of the wrapped store that this store has put there."""

    document: str
    text: str
    metadata: str
    """As JSON."""
    vector: Vector

    @property
    def handed(self) -> Vector:
        """The vector that the wrapped store was given."""
        return _handed(self.vector)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What makes a `VectorStore`: a class of LangChain, or a function, and its arguments."""

    name: str
    """As messages call it."""
    make: Callable[..., Any]
    settings: Mapping[str, Any]
    written: Any = None
    """The settings as they stand in the configuration; what their templates gave is secret."""

    def said(self, error: Exception) -> str:
        """The first line of what was raised, without secrets; more of it may repeat documents."""
        written = self.settings if self.written is None else self.written
        return said_by(error, written=written, resolved=self.settings).partition("\n")[0]


class GivenVectors(Embeddings):
    """Hands over vectors that were made before."""

    def __init__(self, dimension: int) -> None:
        self._probe = [1.0] + [0.0] * (dimension - 1)
        self._given: dict[str, list[float]] = {}
        self.probing = True
        """While a store is made, it may try any text to learn the dimension."""

    @contextmanager
    def giving(self, vectors: Mapping[str, list[float]]) -> Iterator[None]:
        """These texts have these vectors inside the block."""
        self._given.update(vectors)
        try:
            yield
        finally:
            for text in vectors:
                self._given.pop(text, None)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        if text in self._given:
            return self._given[text]
        if self.probing:
            return self._probe
        raise StoreError(
            "the vector store asked for the vector of a text that it was not given; it changes "
            "texts before it embeds them, and cannot be used here"
        )


class Wrapped:
    """One `VectorStore` for vectors of one dimension. To be used by one thread at a time."""

    def __init__(self, recipe: Recipe, dimension: int) -> None:
        self._recipe = recipe
        self._given = GivenVectors(dimension)
        self._by_vector = True
        with self._saying("cannot be made with the configuration given"):
            parameter = _embedding_parameter(recipe.make)
            store = recipe.make(**{parameter: self._given}, **recipe.settings)
        if not isinstance(store, VectorStore):
            raise StoreError(f"{recipe.name} is not a VectorStore of LangChain")
        if type(store).delete is VectorStore.delete:
            raise StoreError(
                f"{recipe.name} has no method that deletes documents, so that no document could "
                "ever change; use another class"
            )
        self._given.probing = False
        self._store = store

    def add(self, documents: Mapping[str, Entry]) -> None:
        """Add records under these ids, which the store has not seen before."""
        for part in _parts(documents):
            vectors = {entry.text: _handed(entry.vector).tolist() for entry in part.values()}
            what = f"cannot add documents of {_named(part)}"
            with self._given.giving(vectors), self._saying(what):
                returned = self._store.add_documents(
                    [_document(name, entry) for name, entry in part.items()], ids=list(part)
                )
            if [str(name) for name in returned] != list(part):
                self.delete([str(name) for name in returned])
                raise StoreError(
                    f"{self._recipe.name} gives documents ids of its own instead of those it is "
                    "told, so they cannot be found again; use another class"
                )

    def nearest(self, vector: Vector, k: int) -> tuple[list[Passage], bool]:
        """The `k` nearest, and whether the store had no more. What others put there is left out."""
        with self._saying("cannot be searched"):
            found = self._searched(_handed(vector).tolist(), k)
        return list(_passages(found)), len(found) < k

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """The documents of these ids that are there."""
        with self._saying("cannot give documents back by their ids"):
            return list(_passages(self._store.get_by_ids(list(ids)))) if ids else []

    def delete(self, ids: Sequence[str]) -> None:
        """Delete documents; some may be gone already."""
        for start in range(0, len(ids), _DELETED_AT_ONCE):
            some = list(ids[start : start + _DELETED_AT_ONCE])
            try:
                with self._saying("cannot delete documents"):
                    if self._store.delete(ids=some) is False:
                        raise RuntimeError("it says that they were not deleted")
            except StoreError:
                # Some classes refuse ids that they do not know, and delete none of the others.
                there = self._still_there(some)
                if there is None or len(there) == len(some):
                    raise
                if there:
                    self.delete(there)

    def _still_there(self, ids: Sequence[str]) -> list[str] | None:
        """Which of these documents the store has, None if it cannot say."""
        try:
            return [passage.document for passage in self.get(ids)]
        except StoreError:
            return None

    def _searched(self, values: list[float], k: int) -> list[Document]:
        if self._by_vector:
            try:
                return self._store.similarity_search_by_vector(values, k=k)
            except NotImplementedError:
                self._by_vector = False
        name = f"lorebind query {uuid.uuid4().hex}"
        with self._given.giving({name: values}):
            return self._store.similarity_search(name, k=k)

    @contextmanager
    def _saying(self, what: str) -> Iterator[None]:
        try:
            yield
        except LorebindError:
            raise
        except NotImplementedError as error:
            raise StoreError(f"{self._recipe.name} {what}: it has no method for it") from error
        except Exception as error:  # whatever a third party raises
            raise StoreError(f"{self._recipe.name} {what}: {self._recipe.said(error)}") from error


def _embedding_parameter(make: Callable[..., Any]) -> str:
    """The name of the argument that takes the `Embeddings`."""
    parameters = inspect.signature(make).parameters
    return next(
        (name for name in EMBEDDING_PARAMETERS if name in parameters), EMBEDDING_PARAMETERS[0]
    )


def _parts(documents: Mapping[str, Entry]) -> Iterable[dict[str, Entry]]:
    """Documents in parts where a text stands for one vector."""
    parts: list[dict[str, Entry]] = []
    vectors: list[dict[str, bytes]] = []
    for name, entry in documents.items():
        content = entry.vector.tobytes()
        for part, known in zip(parts, vectors, strict=True):
            if known.setdefault(entry.text, content) == content:
                part[name] = entry
                break
        else:
            parts.append({name: entry})
            vectors.append({entry.text: content})
    return parts


def _named(documents: Mapping[str, Entry]) -> str:
    uris = sorted({entry.uri for entry in documents.values()})
    more = f" and {len(uris) - _NAMED} more" if len(uris) > _NAMED else ""
    return ", ".join(map(repr, uris[:_NAMED])) + more


def _document(name: str, entry: Entry) -> Document:
    """What is kept: flat, as some stores take nothing else, and whole, for us."""
    metadata = {
        key: value
        for key, value in json.loads(entry.metadata).items()
        if isinstance(value, str | int | float) and not key.startswith("lorebind_")
    }
    metadata |= {
        _DOCUMENT: name,
        _VECTOR: base64.b64encode(entry.vector.tobytes()).decode(),
        _METADATA: entry.metadata,
    }
    return Document(page_content=entry.text, metadata=metadata, id=name)


def _passages(documents: Iterable[Document]) -> Iterator[Passage]:
    for document in documents:
        metadata = document.metadata
        if _DOCUMENT in metadata and _VECTOR in metadata and _METADATA in metadata:
            vector = np.frombuffer(base64.b64decode(metadata[_VECTOR]), "<f4")
            yield Passage(metadata[_DOCUMENT], document.page_content, metadata[_METADATA], vector)


def _handed(vector: Vector) -> Vector:
    """At length 1 every metric that a store may have orders as the cosine does.

    Some stores fail over a vector of length 0, so that another stands for it.
    """
    unit = unit_vector(vector)
    if not unit.any():
        unit[0] = 1.0
    return unit
