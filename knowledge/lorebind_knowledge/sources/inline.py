"""`inline`: documents written into the YAML itself."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lorebind_knowledge.sources.base import Content, SourceItem
from lorebind_knowledge.sources.limits import too_large
from lorebind_knowledge.sources.media_types import media_type_of_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lorebind_knowledge.declarations.sources import InlineDocument


class InlineDocuments:
    """Each document as `inline:ID`, of the kind that the ending of its id says."""

    def __init__(self, key: str, documents: Sequence[InlineDocument], max_bytes: int) -> None:
        self.key = key
        self._documents = documents
        self._max_bytes = max_bytes

    def items(self) -> Iterator[SourceItem]:
        for document in self._documents:
            yield SourceItem(f"inline:{document.id}", partial(self._read, document))

    def _read(self, document: InlineDocument, version: str) -> Content:
        data = document.text.encode("utf-8", "replace")
        if len(data) > self._max_bytes:
            raise too_large(f"inline:{document.id}", self._max_bytes)
        return Content(data, media_type_of_text(document.id), metadata=document.metadata)
