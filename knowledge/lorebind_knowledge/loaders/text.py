"""Load plain text: the whole file, without structure."""

from __future__ import annotations

from lorebind_knowledge.loaders.base import LoadedDocument, title_of


def load_text(text: str, uri: str) -> LoadedDocument:
    return LoadedDocument(text, title_of(uri))
