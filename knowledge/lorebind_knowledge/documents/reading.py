"""Read the documents that callers add: LangChain documents, or mappings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lorebind_config.declarations.sources import DEFAULT_MAX_BYTES
from lorebind_config.errors import UsageError, did_you_mean
from lorebind_config.namespace import ADDED_SCHEME, digest, free_name
from lorebind_knowledge.catalog.added import AddedDocument
from lorebind_knowledge.sources.base import media_type_of_text, plain_metadata

_KEYS = ("id", "text", "data", "media_type", "title", "metadata")

LONGEST_ID = 500
"""Maximum number of characters of an id: PostgreSQL cannot index much longer ones."""


def read_documents(documents: Sequence[Any]) -> list[AddedDocument]:
    """Convert documents to the form in which they are stored; see `changing.add_documents`.

    Returns:
        the documents, each with its own uri. Equal documents are returned once.

    Raises:
        UsageError: an item is not a valid document, or different documents have the same id.
    """
    read: dict[str, AddedDocument] = {}
    taken: dict[str, int] = {}
    for number, given in enumerate(documents):
        where = f"documents[{number}]"
        one = read_document(_with_own_id(given, taken), where)
        if read.setdefault(one.uri, one) != one:
            raise id_is_taken(one, where)
    return list(read.values())


def read_document(given: Any, where: str) -> AddedDocument:
    """Convert a document to the form in which it is stored; see `changing.add_documents`.

    Raises:
        UsageError: it is not a valid document; the message begins with `where`.
    """
    about = _as_mapping(given, where)
    for key in about:
        if key not in _KEYS:
            raise UsageError(f"{where}: unknown key {key!r}; {did_you_mean(str(key), _KEYS)}")
    text, data = about.get("text"), about.get("data")
    if (isinstance(text, str) and text.strip() != "") == (isinstance(data, bytes) and data != b""):
        message = f"{where}: expected a text that is not blank, or data that is not empty"
        raise UsageError(message, at=("text",))
    content = text.encode("utf-8", "replace") if isinstance(text, str) else data
    assert isinstance(content, bytes)
    if len(content) > DEFAULT_MAX_BYTES:
        raise UsageError(f"{where}: has {len(content)} bytes, more than {DEFAULT_MAX_BYTES}")
    name = about.get("id") or digest(content.decode("utf-8", "replace"))[:16]
    if not isinstance(name, str):
        raise UsageError(f"{where}: id: expected text, got a {type(name).__name__}")
    name = name.removeprefix(ADDED_SCHEME)
    if len(name) > LONGEST_ID:
        raise UsageError(
            f"{where}: id: has {len(name)} characters, more than {LONGEST_ID}; give a shorter id"
        )
    media_type = about.get("media_type") or (media_type_of_text(name) if text else "")
    metadata = about.get("metadata", {})
    if not isinstance(metadata, Mapping):
        raise UsageError(f"{where}: metadata: expected a mapping, got a {type(metadata).__name__}")
    metadata = plain_metadata(metadata)
    if title := about.get("title"):
        metadata["title"] = str(title)
    return AddedDocument(f"{ADDED_SCHEME}{name}", content, media_type, metadata)


def id_is_taken(document: AddedDocument, where: str) -> UsageError:
    """Return the error for a document with the id of another document of the same call."""
    name = document.uri.removeprefix(ADDED_SCHEME)
    return UsageError(
        f"{where}: another document of this call is different and has the same id, {name!r}; give "
        "each document its own id",
        at=("id",),
    )


def _with_own_id(given: Any, taken: dict[str, int]) -> Any:
    """Number LangChain documents of the same source, for example the pages of a file."""
    from langchain_core.documents import Document  # importing LangChain takes half a second

    if isinstance(given, Document) and not given.id and (source := given.metadata.get("source")):
        return given.model_copy(update={"id": free_name(str(source), taken)})
    return given


def _as_mapping(given: Any, where: str) -> Mapping[str, Any]:
    from langchain_core.documents import Document

    if isinstance(given, Document):
        return {"id": given.id, "text": given.page_content, "metadata": given.metadata}
    if isinstance(given, Mapping):
        return given
    raise UsageError(
        f"{where}: expected a LangChain document or a mapping with the keys "
        f"{', '.join(_KEYS)}; got a {type(given).__name__}"
    )
