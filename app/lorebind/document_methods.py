"""The documents in a project's knowledge bases: list, add and delete them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.bridge import sync

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.documents import Document

    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_knowledge.catalog.runs import RunInfo
    from lorebind_knowledge.documents.listing import ChunkInfo, DocumentInfo
    from lorebind_knowledge.index.purging import OrphanedIndex
    from lorebind_knowledge.ingest.report import IngestReport
    from lorebind_knowledge.service import KnowledgeService
    from lorebind_knowledge.statistics import KnowledgeStats


class DocumentMethods:
    """The methods of `Project` for documents and indexes."""

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
        """Return the documents of a knowledge base, sorted by uri, including those that failed.

        For paging, pass the uri of the last document as `after` to get the next page, or the uri of
        the first one as `before` to get the previous page. Each document is then listed once, even
        if documents are added and removed at the same time.

        Args:
            kb_id: the id of the knowledge base.
            state: return only documents that are `ready`, `pending` or `failed`.
            limit: the maximum number of documents; None returns all.
            after: a uri; return only the documents after it.
            before: a uri; return only the last documents before it.
            workflow: the workflow that declares the knowledge base, if a workflow does.

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
        """Return one document of a knowledge base.

        Args:
            kb_id: the id of the knowledge base.
            document: the id or the uri of the document.
            workflow: the workflow that declares the knowledge base, if a workflow does.

        Raises:
            NotFoundError: no such knowledge base or document.
        """
        return await self.knowledge.document(kb_id, document, workflow=workflow)

    async def acount_documents(self, kb_id: str, *, workflow: str | None = None) -> dict[str, int]:
        """Return the number of documents per state: `ready`, `pending` and `failed`.

        Args:
            kb_id: the id of the knowledge base.
            workflow: the workflow that declares the knowledge base, if a workflow does.

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
        """Return the chunks of a document, in the order of its text.

        Args:
            kb_id: the id of the knowledge base.
            document: the id or the uri of the document, as returned by `adocuments`.
            limit: the maximum number of chunks; None returns all.
            after: the number of chunks to skip at the start.
            workflow: the workflow that declares the knowledge base, if a workflow does.

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
        """Return the ingest runs of a knowledge base, newest first.

        Args:
            kb_id: the id of the knowledge base.
            limit: the maximum number of runs; None returns all.
            before: the id of a run; return only the runs that started before it.
            workflow: the workflow that declares the knowledge base, if a workflow does.

        Raises:
            NotFoundError: no such knowledge base or run.
            UsageError: a limit below 1.
        """
        return await self.knowledge.runs(kb_id, limit=limit, before=before, workflow=workflow)

    async def arun_of(self, kb_id: str, run_id: str, *, workflow: str | None = None) -> RunInfo:
        """Return one ingest run of a knowledge base.

        Args:
            kb_id: the id of the knowledge base.
            run_id: the id of the run, as returned by `aruns` and in `IngestReport`.
            workflow: the workflow that declares the knowledge base, if a workflow does.

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
        """Add documents to a knowledge base, next to those of its sources, and ingest them.

        Added documents stay until you delete them: every ingest, `replace` and reindex keeps them.
        A document replaces the added document that has the same `id`. If another ingest is running,
        the call waits for it.

        Args:
            kb_id: the id of the knowledge base.
            documents: LangChain documents, identified by their id or their `source`; or mappings
                with `text` or `data` (bytes), and optionally `id`, `media_type`, `title` and
                `metadata`. A document without an id is identified by its content. If several
                LangChain documents have the same `source`, the second is `SOURCE#2`, and so on;
                add them in one call, because the numbers of another call start again.
            workflow: the workflow that declares the knowledge base, if a workflow does.
            run_id: the id of the ingest run, as for `aingest`.

        Raises:
            UsageError: one of `documents` is not a document, or different documents have the same
                id; nothing is added.
            LorebindError: as for `aingest`. The added documents are stored, and the next ingest
                completes the run.
        """
        return await self.knowledge.add_documents(
            kb_id, documents, workflow=workflow, run_id=run_id
        )

    async def adelete_document(
        self, kb_id: str, document: str, *, workflow: str | None = None
    ) -> DocumentInfo:
        """Delete a document that was added with `aadd_documents`.

        Args:
            kb_id: the id of the knowledge base.
            document: the id or the uri of the document, as returned by `adocuments`.
            workflow: the workflow that declares the knowledge base, if a workflow does.

        Raises:
            NotFoundError: no such knowledge base or document.
            UsageError: the document comes from a source, so the next ingest would add it again.
        """
        return await self.knowledge.delete_document(kb_id, document, workflow=workflow)

    async def adelete(self, kb_id: str, *, workflow: str | None = None) -> None:
        """Delete the index of a knowledge base, its runs, and the documents that were added to it.

        The declaration stays. The next ingest builds a new index and reuses cached embeddings.

        Raises:
            NotFoundError: no such knowledge base.
            IngestRunningError: an ingest of it is running.
        """
        await self.knowledge.delete(kb_id, workflow=workflow)

    async def astats(self, kb_id: str, *, workflow: str | None = None) -> KnowledgeStats:
        """Return statistics about the index of a knowledge base, without changing anything."""
        return await self.knowledge.stats(kb_id, workflow=workflow)

    async def apurge(self, *, dry_run: bool = True) -> list[OrphanedIndex]:
        """Remove the data of knowledge bases that the project no longer declares.

        This removes the vectors, texts, full-text entries and runs of all tenants. It keeps
        knowledge bases that tenants created over the API of a server, collections, other projects
        in the same database, and the embedding cache.

        Args:
            dry_run: only list the data that would be removed.

        Returns:
            The removed data, or with `dry_run` the data that would be removed.

        Raises:
            IngestRunningError: one of these knowledge bases is being ingested.
            StoreError: an outage; call the method again to remove the rest.
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
