"""The documents and indexes of a project on a server."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lorebind.remote.connection import read, segment
from lorebind.remote.ingesting import RemoteIngests
from lorebind_config.errors import NotFoundError, UsageError
from lorebind_config.identity import document_id
from lorebind_knowledge.documents.listing import (
    HINTS,
    ChunkInfo,
    DocumentInfo,
    check_state,
    no_document,
)
from lorebind_knowledge.documents.reading import read_documents
from lorebind_knowledge.index.purging import OrphanedIndex
from lorebind_knowledge.ingest.report import IngestReport
from lorebind_knowledge.statistics import KnowledgeStats

_ID = re.compile(r"[0-9a-f]{24}")


class RemoteDocuments(RemoteIngests):
    """The methods of `RemoteProject` for documents and indexes."""

    def documents(
        self, kb_id: str, *, state: str | None = None, workflow: str | None = None
    ) -> list[DocumentInfo]:
        check_state(state)
        found = self._server.all(_documents(kb_id), state=state, workflow=workflow)
        return [read(DocumentInfo, one) for one in found]

    def chunks(self, kb_id: str, document: str, *, workflow: str | None = None) -> list[ChunkInfo]:
        path = f"{_documents(kb_id)}/{self._id(kb_id, document, workflow)}/chunks"
        return [read(ChunkInfo, one) for one in self._server.all(path, workflow=workflow)]

    def add_documents(
        self, kb_id: str, documents: Sequence[Mapping[str, Any]], *, workflow: str | None = None
    ) -> IngestReport:
        read_documents(documents)  # the server would add the valid ones only
        sent = [("files", (one["id"], one["data"], _BYTES)) for one in documents]
        parameters = {} if workflow is None else {"workflow": workflow}
        answer = self._server.send("POST", _documents(kb_id), files=sent, params=parameters).json()
        for result in answer["results"]:
            if "error" in result:
                raise UsageError(str(result["error"]["detail"]))
        if answer["report"] is None:
            return self._report(kb_id, str(answer["run_id"]), workflow)
        return read(IngestReport, answer["report"])

    def delete_document(
        self, kb_id: str, document: str, *, workflow: str | None = None
    ) -> DocumentInfo:
        path = f"{_documents(kb_id)}/{self._id(kb_id, document, workflow)}"
        found = self._server.get(path, workflow=workflow)
        self._server.delete_patiently(path, workflow=workflow)
        return read(DocumentInfo, found)

    def delete(self, kb_id: str, *, workflow: str | None = None) -> None:
        self._server.delete_patiently(_documents(kb_id), workflow=workflow)

    def stats(self, kb_id: str, *, workflow: str | None = None) -> KnowledgeStats:
        path = f"/knowledge-bases/{segment(kb_id)}/stats"
        return read(KnowledgeStats, self._server.get(path, workflow=workflow))

    def purge(self, *, dry_run: bool = True) -> list[OrphanedIndex]:
        found = self._server.post_patiently("/purge", {"dry_run": dry_run})
        return [read(OrphanedIndex, one) for one in found["items"]]

    def _id(self, kb_id: str, document: str, workflow: str | None) -> str:
        """Return the id of a document, for use in a path.

        Raises:
            NotFoundError: no such document or knowledge base.
        """
        found = document if _ID.fullmatch(document) else document_id(document)
        try:
            self._server.get(f"{_documents(kb_id)}/{found}", workflow=workflow)
        except NotFoundError:
            path = _documents(kb_id)  # raises an error if the knowledge base does not exist
            known = self._server.get(path, limit=HINTS, workflow=workflow)["items"]
            raise no_document(kb_id, document, [one["uri"] for one in known]) from None
        return found


_BYTES = "application/octet-stream"
"""A media type for which the server detects the format, as `Project` does for bytes."""


def _documents(kb_id: str) -> str:
    return f"/knowledge-bases/{segment(kb_id)}/documents"
