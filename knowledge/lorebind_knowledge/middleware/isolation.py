"""Defence in depth: what a search gives belongs to the knowledge base that was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.bridge import call
from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.identity import chunk_id
from lorebind_knowledge.knowledge_base import KnowledgeBase
from lorebind_knowledge.middleware.base import Wrapper
from lorebind_knowledge.retrieval.stages import stages_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lorebind_knowledge.middleware.base import Retrieval, Retrieve
    from lorebind_knowledge.namespace import Namespace
    from lorebind_knowledge.records import DocumentMatch, QueryResult

_FEW = 8
_MANY = range(_FEW, 100_000)
"""How many times one document may hold one passage: a stranger's is found out in so many tries,
which take a fraction of a second."""


class Isolation(Wrapper):
    """Compares the id of each passage with what it must be: a hash over whose passage it is.

    Tenant, project, scope and knowledge base are part of an id, and so are document and text. A
    database that mixes up two of them, by a fault or a forged row, gives an id that is none of the
    asked one's. Passages that were grown by their neighbours are not what an id is made of, and
    are not compared.
    """

    def retrieval(self, inner: Retrieve) -> Retrieve:
        async def isolated(asked: Retrieval) -> QueryResult:
            result = await inner(asked)
            ours = all(isinstance(kb, KnowledgeBase) for kb in asked.kbs)  # others have other ids
            if ours and not any(settings.neighbours for settings in stages_of(asked.settings)):
                spaces = {kb.id: kb.namespace for kb in asked.kbs}
                # Nearly always the first is the one: a document seldom says the same twice.
                odd = [match for match in result if not _belongs(match, spaces, range(_FEW))]
                if odd and not await call(_all_belong, odd, spaces):
                    raise StoreError(
                        f"searching {', '.join(map(repr, spaces))} gave the passage "
                        f"{odd[0].id[:16]} of {odd[0].metadata.get('uri')!r}, which is not of "
                        "these knowledge bases; nothing of the answer was used"
                    )
            return result

        return isolated


def _all_belong(matches: Sequence[DocumentMatch], spaces: dict[str, Namespace]) -> bool:
    return all(_belongs(match, spaces, _MANY) for match in matches)


def _belongs(match: DocumentMatch, spaces: dict[str, Namespace], ordinals: Iterable[int]) -> bool:
    namespace = spaces.get(match.metadata.get("kb_id", ""))
    uri = match.metadata.get("uri", "")
    return namespace is not None and any(
        chunk_id(namespace, uri, match.text, ordinal) == match.id for ordinal in ordinals
    )
