"""Plain text: the whole file, without structure."""

from __future__ import annotations

from pathlib import PurePosixPath

from lorebind_knowledge.loaders.base import LoadedDocument, decode

SUFFIXES = (".txt", ".text", ".rst")


def load_text(data: bytes, uri: str) -> LoadedDocument:
    return LoadedDocument(decode(data, uri), PurePosixPath(uri).stem)
