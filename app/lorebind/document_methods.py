"""What is in the knowledge bases of a project: to be listed, added to and deleted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.bridge import sync

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.documents import Document

    from lorebind_knowledge.catalog.runs import RunInfo
    from lorebind_knowledge.configuration import LoadedProject
    from lorebind_knowledge.documents.listing import ChunkInfo, DocumentInfo
    from lorebind_knowledge.index.purging import Undeclared
    from lorebind_knowledge.ingest.report import IngestReport
    from lorebind_knowledge.service import KnowledgeService
    from lorebind_knowledge.statistics import KnowledgeStats


class DocumentMethods:
    """The methods of a project for documents and indexes. Its sources are `ingest`'s."""

    config: LoadedProject
    knowledge: KnowledgeService

    async def adocuments(
        self,
        kb_id: str,
        *,
        state: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        before: str | None = None,
        workflow: str | None = None,
    ) -> list[DocumentInfo]:
        """The documents of a knowledge base by uri, those that failed among them.

        Read page by page, each document is listed once while others are added and removed: give
        the uri of the last one as `after` for the next page, that of the first one as `before` for
        the page before.

        Args:
            kb_id: the knowledge base.
            state: only those that are `ready`, `pending` or `failed`.
            limit: the most; None is all.
            after: a uri; only those after it.
            before: a uri; the last ones before it.
            workflow: the workflow that declares it, where one does.

        Raises:
            NotFoundError: no such knowledge base.
            UsageError: no such state, a limit below 1, or both `after` and `before`.
        """
        return await self.knowledge.documents(
            kb_id, state=state, limit=limit, after=after, before=before, workflow=workflow
        )

    async def adocument(
        self, kb_id: str, document: str, *, workflow: str | None = None
    ) -> DocumentInfo:
        """One document of a knowledge base.

        Args:
            kb_id, workflow: as for `adocuments`.
            document: its id or its uri.

        Raises:
            NotFoundError: no such knowledge base or document.
        """
        return await self.knowledge.document(kb_id, document, workflow=workflow)

    async def acount_documents(self, kb_id: str, *, workflow: str | None = None) -> dict[str, int]:
        """How many documents `adocuments` lists: `ready`, `pending` and `failed`.

        Args:
            kb_id, workflow: as for `adocuments`.

        Raises:
            NotFoundError: no such knowledge base.
        """
        return await self.knowledge.count_documents(kb_id, workflow=workflow)

    async def achunks(
        self,
        kb_id: str,
        document: str,
        *,
        limit: int | None = None,
        after: int = 0,
        workflow: str | None = None,
    ) -> list[ChunkInfo]:
        """The chunks of a document, in its order.

        Args:
            kb_id, workflow: as for `adocuments`.
            document: its id or its uri, as `adocuments` gives them.
            limit: the most; None is all.
            after: how many of the first ones are left out.

        Raises:
            NotFoundError: no such knowledge base or document.
            UsageError: a limit below 1, or `after` below 0.
        """
        return await self.knowledge.chunks(
            kb_id, document, limit=limit, after=after, workflow=workflow
        )

    async def aruns(
        self,
        kb_id: str,
        *,
        limit: int | None = None,
        before: str | None = None,
        workflow: str | None = None,
    ) -> Sequence[RunInfo]:
        """The ingests that a knowledge base has had, the latest first.

        Args:
            kb_id, workflow: as for `adocuments`.
            limit: the most; None is all.
            before: the id of a run; only those that began before it.

        Raises:
            NotFoundError: no such knowledge base or run.
            UsageError: a limit below 1.
        """
        return await self.knowledge.runs(kb_id, limit=limit, before=before, workflow=workflow)

    async def arun_of(self, kb_id: str, run_id: str, *, workflow: str | None = None) -> RunInfo:
        """One of them.

        Args:
            kb_id, workflow: as for `adocuments`.
            run_id: its id, as `aruns` and `IngestReport` give it.

        Raises:
            NotFoundError: no such knowledge base or run.
        """
        return await self.knowledge.run(kb_id, run_id, workflow=workflow)

    async def aadd_documents(
        self,
        kb_id: str,
        documents: Sequence[Document | Mapping[str, Any]],
        *,
        workflow: str | None = None,
        run_id: str | None = None,
    ) -> IngestReport:
        """Add documents to a knowledge base beside those of its sources, and ingest them.

        They are kept by every ingest, `replace` and reindex, until they are deleted. One with the
        `id` of another that was added takes its place. Waits for an ingest that is under way.

        Args:
            kb_id, workflow: as for `adocuments`.
            documents: of LangChain, each known by its id or `source`; or mappings with `text` or
                `data` (bytes), and perhaps `id`, `media_type`, `title` and `metadata`. Without an
                id, a document is known by what it says.
            run_id: as for `aingest`.

        Raises:
            UsageError: what is given is no document; nothing is added.
            LorebindError: as for `aingest`. What was given is kept, and the next ingest goes on.
        """
        return await self.knowledge.add_documents(
            kb_id, documents, workflow=workflow, run_id=run_id
        )

    async def adelete_document(
        self, kb_id: str, document: str, *, workflow: str | None = None
    ) -> DocumentInfo:
        """Delete a document that was added, by its id or uri.

        Args:
            kb_id, document, workflow: as for `achunks`.

        Raises:
            NotFoundError: no such knowledge base or document.
            UsageError: it is a source's, and would come back with the next ingest.
        """
        return await self.knowledge.delete_document(kb_id, document, workflow=workflow)

    async def adelete(self, kb_id: str, *, workflow: str | None = None) -> None:
        """Delete the whole index of a knowledge base, its runs, and the documents added by hand.

        Its declaration stays. The next ingest begins anew, with the cached vectors.

        Raises:
            NotFoundError: no such knowledge base.
            IngestRunningError: it is being ingested.
        """
        await self.knowledge.delete(kb_id, workflow=workflow)

    async def astats(self, kb_id: str, *, workflow: str | None = None) -> KnowledgeStats:
        """What is in a knowledge base's index. Touches nothing."""
        return await self.knowledge.stats(kb_id, workflow=workflow)

    async def apurge(self, *, dry_run: bool = True) -> list[Undeclared]:
        """Remove what is left of knowledge bases that the project does not declare any more.

        Vectors, texts, words and runs go, of all tenants. What tenants made over the API of a
        server is left alone. So are collections, other projects in the same database, and the
        embedding cache.

        Args:
            dry_run: only list what would be removed.

        Returns:
            what was removed, or what would be.

        Raises:
            IngestRunningError: one of them is being ingested.
            StoreError: an outage; what is left is removed by another purge.
        """
        from lorebind.made_over_api import made_over_api

        made = partial(made_over_api, self.config)
        return await (self.knowledge.undeclared(made) if dry_run else self.knowledge.purge(made))

    documents = sync(adocuments)
    document = sync(adocument)
    count_documents = sync(acount_documents)
    chunks = sync(achunks)
    runs = sync(aruns)
    run_of = sync(arun_of)
    add_documents = sync(aadd_documents)
    delete_document = sync(adelete_document)
    delete = sync(adelete)
    stats = sync(astats)
    purge = sync(apurge)
