"""The methods of `KnowledgeBase` that read its documents, and delete or exclude some."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.documents.listing import (
    count_documents,
    find_document,
    list_chunks,
    list_chunks_of,
    list_documents,
)
from lorebind_knowledge.plumbing.bridge import sync

if TYPE_CHECKING:
    from lorebind_knowledge.documents.deleting import Deletion
    from lorebind_knowledge.documents.fields import MetadataField
    from lorebind_knowledge.documents.finding import FindResult
    from lorebind_knowledge.documents.listing import ChunkInfo, DocumentInfo
    from lorebind_knowledge.documents.reading import DocumentLines, ReadableDocument
    from lorebind_knowledge.handle import KnowledgeHandle
    from lorebind_knowledge.ingest.report import Skipped


class DocumentMethods:
    """The methods of `KnowledgeBase` that read its documents from the index."""

    handle: KnowledgeHandle

    async def adocuments(
        self,
        *,
        state: str | None = None,
        q: str = "",
        format: str | None = None,
        filters: Mapping[str, Any] | None = None,
        limit: int | None = None,
        after: str | None = None,
        before: str | None = None,
    ) -> list[DocumentInfo]:
        """Return the documents, sorted by uri, including those that failed.

        For paging, pass the uri of the last document as `after` to get the next page, or the uri of
        the first one as `before` to get the previous page. Each document is then listed once, even
        if documents are added and removed at the same time.

        Args:
            state: return only documents that are `ready`, `pending` or `failed`.
            q: return only documents whose uri or title contains this text, in any case of letters.
            format: return only documents that were read as this format, such as `markdown`.
            filters: return only documents with a passage that meets this condition.
            limit: the maximum number of documents; None returns all.
            after: a uri; return only the documents after it.
            before: a uri; return only the last documents before it.

        Raises:
            UsageError: no such state, an invalid filter, a limit below 1, or both `after` and
                `before`.
        """
        return await self.handle.read(
            list_documents,
            state,
            q=q,
            format=format,
            where=filters,
            limit=limit,
            after=after,
            before=before,
        )

    async def adocument(self, document: str) -> DocumentInfo:
        """Return one document.

        Args:
            document: the id or the uri of the document.

        Raises:
            NotFoundError: no such document.
        """
        return await self.handle.read(find_document, document)

    async def acount_documents(self) -> dict[str, int]:
        """Return the number of documents per state: `ready`, `pending` and `failed`."""
        return await self.handle.read(count_documents)

    async def askipped(
        self, *, limit: int | None = None, after: str | None = None, before: str | None = None
    ) -> list[Skipped]:
        """Return the files and folders that the last ingest found and did not read, by uri.

        Each has the reason, and the setting of the source with which it is read, if there is one.
        Page through them as through `documents`.

        Args:
            limit: the maximum number of items; None returns all.
            after: a uri; return only the items after it.
            before: a uri; return only the last items before it.

        Raises:
            UsageError: a limit below 1, or both `after` and `before`.
        """
        from lorebind_knowledge.documents.skipped import list_skipped

        return await self.handle.read(list_skipped, limit=limit, after=after, before=before)

    async def achunks(
        self,
        document: str,
        *,
        limit: int | None = None,
        after: int = 0,
        lines: tuple[int, int] | None = None,
    ) -> list[ChunkInfo]:
        """Return the chunks of a document, in the order of its text.

        Args:
            document: the id or the uri of the document, as returned by `documents`.
            limit: the maximum number of chunks; None returns all.
            after: the number of chunks to skip at the start.
            lines: a first and a last line; return only the chunks that hold a line of these.

        Raises:
            NotFoundError: no such document.
            UsageError: a limit below 1, `after` below 0, or no such `lines`.
        """
        return await self.handle.read(list_chunks, document, limit=limit, after=after, lines=lines)

    async def achunks_of(self, documents: Collection[str]) -> dict[str, list[ChunkInfo]]:
        """Return the chunks of several documents, in the order of each text.

        This is the fast way to read a whole knowledge base: page through `documents`, and read the
        chunks of each page at once.

        Args:
            documents: the ids or uris of documents, which are the keys of the result.

        Raises:
            NotFoundError: one of the documents does not exist.
        """
        return await self.handle.read(list_chunks_of, documents)

    async def afields(self) -> list[MetadataField]:
        """Return the keys of the documents' metadata with their types and most frequent values.

        These are the keys for filters. `uri`, `title` and `kb_id` are omitted. It reads the
        metadata of every passage.
        """
        from lorebind_knowledge.documents.fields import list_fields

        return await self.handle.read(list_fields)

    async def areadable_documents(
        self,
        *,
        filters: Mapping[str, Any] | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[ReadableDocument]:
        """Return the documents that searches find, sorted by uri, with their metadata.

        As before a search, the knowledge base is ingested first if that is due.

        Args:
            filters: the condition that a document must meet; None uses that of `retrieval`.
            limit: the maximum number of documents; None returns all.
            after: a uri; return only the documents after it.

        Raises:
            UsageError: the filter is invalid, or a limit below 1.
        """
        from lorebind_knowledge.documents.reading import list_readable

        await self.handle.start()
        return await self.handle.read(
            list_readable, where=self._where(filters), limit=limit, after=after
        )

    async def afind(
        self,
        pattern: str,
        *,
        regex: bool = False,
        document: str | None = None,
        filters: Mapping[str, Any] | None = None,
        limit: int = 100,
    ) -> FindResult:
        """Return the lines that contain a text, or match a regular expression, ordered by document.

        Upper and lower case are equal. A regular expression has RE2's syntax, so that it takes
        linear time. Both match within a line of a chunk. As before a search, the knowledge base is
        ingested first if that is due.

        Args:
            pattern: the text or the expression, of at most 1000 characters.
            regex: whether the pattern is an expression.
            document: the id or the uri of the only document to search; None searches all.
            filters: the condition that passages must meet; None uses that of `retrieval`.
            limit: the maximum number of passages. If there may be more, `cut` says why.

        Raises:
            UsageError: the pattern or the filter is invalid, or a limit below 1.
            NotFoundError: no such document.
        """
        from lorebind_knowledge.documents.finding import find_lines

        await self.handle.start()
        return await self.handle.read(
            find_lines,
            pattern,
            where=self._where(filters),
            regex=regex,
            document=document,
            limit=limit,
        )

    async def afetch(
        self,
        document: str,
        *,
        first_line: int = 1,
        last_line: int | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> DocumentLines:
        """Return the lines of a document from the index alone; its source is not read.

        Lines that no chunk holds are `gaps` of the result, and its `text` marks them. As before a
        search, the knowledge base is ingested first if that is due.

        Args:
            document: the id or the uri of the document.
            first_line: the first line, from 1.
            last_line: the last line; None means the last one that the index has.
            filters: the condition that passages must meet; None uses that of `retrieval`.

        Raises:
            NotFoundError: no such document, or none of its passages passes the filter.
            UsageError: the document has no such lines, or the filter is invalid.
        """
        from lorebind_knowledge.documents.reading import read_lines

        await self.handle.start()
        return await self.handle.read(
            read_lines, document, first_line, last_line, where=self._where(filters)
        )

    async def adelete_documents(
        self, filters: Mapping[str, Any], *, dry_run: bool = False
    ) -> Deletion:
        """Delete the added documents whose metadata passes a filter.

        All passages of a document must pass. Documents of sources are not deleted: the result lists
        them, each with what excludes it.

        Args:
            filters: the filter, such as `{"team": "old"}`; it must not be empty.
            dry_run: only return the documents that would be deleted.

        Raises:
            UsageError: the filter is invalid or empty.
            ReadOnlyError: the knowledge base is filled by others.
        """
        from lorebind_knowledge.documents.deleting import delete_by_filter

        return await delete_by_filter(self.handle.kb, filters, dry_run=dry_run)

    async def aexclude_document(self, document: str) -> DocumentInfo:
        """Take a document out of searches without deleting it; see `include_document`.

        It applies at once, also during an ingest, and stays so through every ingest, reindex and
        rollback. `documents` and `chunks` still list it; `query`, `find`, `fetch`, agents and their
        tools do not find it.

        Args:
            document: the id or the uri of the document, as returned by `documents`.

        Raises:
            NotFoundError: no such document.
            UsageError: 1000 documents are excluded already.
            ReadOnlyError: the knowledge base is filled by others, or its database is read-only.
        """
        from lorebind_knowledge.documents.changing import set_excluded

        return await set_excluded(self.handle.kb, document, excluded=True)

    async def ainclude_document(self, document: str) -> DocumentInfo:
        """Let searches find a document again that `exclude_document` has taken out of them.

        Args:
            document: the id or the uri of the document.

        Raises:
            NotFoundError: no such document.
            ReadOnlyError: the knowledge base is filled by others, or its database is read-only.
        """
        from lorebind_knowledge.documents.changing import set_excluded

        return await set_excluded(self.handle.kb, document, excluded=False)

    def _where(self, filters: Mapping[str, Any] | None) -> Mapping[str, Any]:
        return self.handle.retrieval.filters if filters is None else filters

    documents = sync(adocuments)
    document = sync(adocument)
    count_documents = sync(acount_documents)
    skipped = sync(askipped)
    chunks = sync(achunks)
    chunks_of = sync(achunks_of)
    fields = sync(afields)
    readable_documents = sync(areadable_documents)
    find = sync(afind)
    fetch = sync(afetch)
    delete_documents = sync(adelete_documents)
    exclude_document = sync(aexclude_document)
    include_document = sync(ainclude_document)
