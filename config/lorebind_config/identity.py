"""Stable ids: hashes of length-prefixed fields, so that different inputs do not collide."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lorebind_config.namespace import Namespace

ADDED_SCHEME = "added:"
"""The beginning of the uris of documents that were added by hand. No source uses it."""


def digest(*fields: str | bytes) -> str:
    """Return the SHA-256, in hex, of fields that are each preceded by their length in bytes."""
    hasher = hashlib.sha256()
    for value in fields:
        data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        hasher.update(len(data).to_bytes(8, "big"))
        hasher.update(data)
    return hasher.hexdigest()


def document_id(uri: str) -> str:
    """Return 24 characters that replace a URI where it cannot be written, such as in a path."""
    return digest(uri)[:24]


def free_name(name: str, taken: dict[str, int]) -> str:
    """Return the name, or `NAME#2` and so on if it is taken; `taken` counts the uses of each."""
    free = name
    while free in taken:
        taken[name] += 1
        free = f"{name}#{taken[name]}"
    taken[free] = 1
    return free


def chunk_id(namespace: Namespace, uri: str, text: str, ordinal: int) -> str:
    """Return the id of a chunk: its text, document and owner, never its position.

    `ordinal` counts equal texts within the document, from 0. An edit changes only the ids of
    chunks whose text changes.
    """
    owner = (namespace.tenant, namespace.project, namespace.scope, namespace.kb)
    return digest(*owner, uri, text, str(ordinal))
