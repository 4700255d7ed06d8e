"""Documents added by hand, as a source of their own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lorebind_config.errors import SourceError
from lorebind_knowledge.sources.base import Content, SourceItem

if TYPE_CHECKING:
    from lorebind_knowledge.knowledge_base import KnowledgeBase

ADDED = "added"
"""The key of this source."""


class AddedSource:
    """A source of the documents that were added to a knowledge base by hand."""

    key = ADDED

    def __init__(self, kb: KnowledgeBase) -> None:
        self._added, self._namespace = kb.catalog.added, kb.namespace

    def items(self) -> list[SourceItem]:
        uris = self._added.uris(self._namespace)
        return [SourceItem(uri, partial(self._read, uri)) for uri in uris]

    def _read(self, uri: str, version: str) -> Content:
        found = self._added.get(self._namespace, uri)
        if found is None:
            raise SourceError(f"{uri}: was deleted in the meantime")
        return Content(found.data, found.media_type, metadata=found.metadata)
