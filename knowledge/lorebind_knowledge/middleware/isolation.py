"""Defense in depth: check that the results of a search belong to the searched knowledge bases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.errors import StoreError
from lorebind_config.namespace import chunk_id
from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase
from lorebind_knowledge.middleware import Wrapper
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.retrieval.judging import stages_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.middleware import Retrieval, Retrieve
    from lorebind_knowledge.records import DocumentMatch, QueryResult

_FEW = 8
_MANY = range(_FEW, 100_000)
"""The ordinals to try, since one document may repeat a passage. Trying all of them to detect a
foreign passage takes a fraction of a second."""


class Isolation(Wrapper):
    """Compares the id of each passage with the hash that it must be.

    Tenant, project, scope and knowledge base are part of an id, and so are document and text. If a
    database mixes up two of them, by a fault or a forged row, the id belongs to none of the
    searched knowledge bases. Passages that were extended by their neighbors have other texts than
    their ids, and are not compared.
    """

    def retrieval(self, inner: Retrieve) -> Retrieve:
        async def isolated(retrieval: Retrieval) -> QueryResult:
            result = await inner(retrieval)
            # The passages of existing databases have other ids.
            ours = all(isinstance(kb, IndexedKnowledgeBase) for kb in retrieval.kbs)
            if ours and not any(settings.neighbours for settings in stages_of(retrieval.settings)):
                spaces = {kb.id: kb.namespace for kb in retrieval.kbs}
                # Nearly always the first ordinal matches: documents rarely repeat a passage.
                odd = [match for match in result if not _belongs(match, spaces, range(_FEW))]
                if odd and not await call(lambda: all(_belongs(m, spaces, _MANY) for m in odd)):
                    raise StoreError(
                        f"the search of {', '.join(map(repr, spaces))} returned the passage "
                        f"{odd[0].id[:16]} of {odd[0].metadata.get('uri')!r}, which does not "
                        "belong to these knowledge bases; the whole result was discarded"
                    )
            return result

        return isolated


def _belongs(match: DocumentMatch, spaces: dict[str, Namespace], ordinals: Iterable[int]) -> bool:
    namespace = spaces.get(match.metadata.get("kb_id", ""))
    uri = match.metadata.get("uri", "")
    return namespace is not None and any(
        chunk_id(namespace, uri, match.text, ordinal) == match.id for ordinal in ordinals
    )
