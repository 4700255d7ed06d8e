"""A knowledge base of a project on a server."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorebind.declaration_methods import KnowledgeBaseInfo
from lorebind.remote.connection import Connection, read, segment
from lorebind.remote.errors import ServerError
from lorebind.remote.searching import command_of, search
from lorebind_config.errors import IngestRunningError, NotFoundError, UsageError
from lorebind_config.filters import resolved
from lorebind_config.namespace import document_id
from lorebind_knowledge.catalog.runs import RunInfo
from lorebind_knowledge.documents.changing import read_documents
from lorebind_knowledge.documents.deleting import Deletion
from lorebind_knowledge.documents.fields import MetadataField
from lorebind_knowledge.documents.finding import FindResult
from lorebind_knowledge.documents.listing import (
    HINTS,
    ChunkInfo,
    DocumentInfo,
    KnowledgeStats,
    check_state,
    no_document,
)
from lorebind_knowledge.documents.reading import DocumentLines
from lorebind_knowledge.events import Event, Events, Extension
from lorebind_knowledge.ingest.report import IngestPlan, IngestReport, Skipped
from lorebind_knowledge.ingest.rollback import RollbackReport
from lorebind_knowledge.loaders.scans.words import PageBox
from lorebind_knowledge.packing.pack import PackReport
from lorebind_knowledge.packing.unpack import UnpackReport
from lorebind_knowledge.records import MatchingTerms, QueryResult, SearchPath

if TYPE_CHECKING:
    from lorebind_bindings import ResolvedBinding

_ID = re.compile(r"[0-9a-f]{24}")
_BYTES = "application/octet-stream"
"""A media type for which the server detects the format, as `Project` does for bytes."""

_PAUSE_SECONDS = 1.5
"""Seconds between two attempts to begin an ingest while another one runs."""

log = logging.getLogger("lorebind.remote")

_HOOKS = vars(Extension)


class RemoteKnowledgeBase:
    """The sync methods of `KnowledgeBase` that the command line needs, each a request or two."""

    def __init__(
        self,
        server: Connection,
        events: Events,
        tell_end: Callable[[str], None],
        kb_id: str,
        workflow: str | None,
    ) -> None:
        """
        Args:
            server: the connection to the server.
            events: receives the events of ingests.
            tell_end: see `RemoteProject`.
            kb_id: the id of the knowledge base. The first request reports an unknown id.
            workflow: the workflow that declares it, if a workflow does.
        """
        self._server, self._events, self._tell_end = server, events, tell_end
        self.id, self.workflow = kb_id, workflow
        self._path = f"/knowledge-bases/{segment(kb_id)}"

    @property
    def info(self) -> KnowledgeBaseInfo:
        return read(KnowledgeBaseInfo, self._get(""))

    def stats(self) -> KnowledgeStats:
        return read(KnowledgeStats, self._get("/stats"))

    def plan(
        self, *, inputs: Mapping[str, Any] | None = None, strategy: str = "upsert"
    ) -> IngestPlan:
        body = self._body(inputs=dict(inputs or {}), strategy=strategy)
        return read(IngestPlan, self._server.post_patiently(f"{self._path}/plan", body))

    def query(self, question: str, **settings: Any) -> QueryResult:
        return read(QueryResult, self._query(question, settings))

    def query_explained(
        self, question: str, **settings: Any
    ) -> tuple[QueryResult, ResolvedBinding, MatchingTerms]:
        from lorebind_bindings import ResolvedBinding

        answer = self._query(question, settings, explain=True)
        terms = read(MatchingTerms, answer.get("terms"))
        return read(QueryResult, answer), read(ResolvedBinding, answer.get("binding")), terms

    def why(self, question: str, document: str, **settings: Any) -> SearchPath:
        body = self._body(document=document)
        path = f"{self._path}/why"
        return read(SearchPath, search(self._server, path, question, settings, body))

    def _query(self, question: str, settings: Mapping[str, Any], **more: Any) -> Any:
        body = self._body(**more)
        return search(self._server, f"{self._path}/query", question, settings, body)

    def documents(
        self,
        *,
        state: str | None = None,
        q: str = "",
        format: str | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> list[DocumentInfo]:
        check_state(state)
        which: dict[str, Any] = {
            "state": state,
            "q": q or None,
            "format": format,
            "filters": _parameter(filters),
        }
        path = f"{self._path}/documents"
        return read(list[DocumentInfo], self._server.all(path, **which, workflow=self.workflow))

    def chunks(self, document: str) -> list[ChunkInfo]:
        path = f"{self._path}/documents/{self._id(document)}/chunks"
        return read(list[ChunkInfo], self._server.all(path, workflow=self.workflow))

    def page_picture(self, document: str, page: int) -> bytes:
        path = f"{self._path}/documents/{self._id(document)}/pages/{page}"
        return b"".join(self._server.download(path, method="GET", **self._parameters))

    def page_boxes(
        self, document: str, page: int, *, start: int = 0, end: int | None = None
    ) -> list[PageBox]:
        path = f"/documents/{self._id(document)}/pages/{page}/boxes"
        return read(list[PageBox], self._get(path, start=start, end=end)["items"])

    def skipped(self) -> list[Skipped]:
        return read(
            list[Skipped], self._server.all(f"{self._path}/skipped", workflow=self.workflow)
        )

    def fields(self) -> list[MetadataField]:
        return read(list[MetadataField], self._get("/fields")["items"])

    def find(
        self,
        pattern: str,
        *,
        regex: bool = False,
        document: str | None = None,
        filters: Mapping[str, Any] | None = None,
        limit: int = 100,
    ) -> FindResult:
        settings = {"regex": regex, "document": document, "limit": limit}
        where = _parameter(filters)
        return read(FindResult, self._get("/find", pattern=pattern, filters=where, **settings))

    def fetch(
        self,
        document: str,
        *,
        first_line: int = 1,
        last_line: int | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> DocumentLines:
        lines = {"first_line": first_line, "last_line": last_line, "filters": _parameter(filters)}
        return read(DocumentLines, self._get("/fetch", document=document, **lines))

    def runs(self, *, limit: int | None = None) -> list[RunInfo]:
        """Return the runs, also those that were not requested from the server."""
        path = f"{self._path}/runs"
        return [_run_info(run) for run in self._server.all(path, most=limit, **self._parameters)]

    def add_documents(self, documents: Sequence[Mapping[str, Any]]) -> IngestReport:
        read_documents(documents)  # the server would add the valid ones only
        sent = [("files", (document["id"], document["data"], _BYTES)) for document in documents]
        path = f"{self._path}/documents"
        answer = self._server.send("POST", path, files=sent, params=self._parameters).json()
        for result in answer["results"]:
            if "error" in result:
                raise UsageError(str(result["error"]["detail"]))
        if answer["report"] is None:
            return self._report(str(answer["run_id"]))
        return read(IngestReport, answer["report"])

    def delete_document(self, document: str) -> DocumentInfo:
        path = f"/documents/{self._id(document)}"
        answer = self._get(path)
        self._server.delete_patiently(f"{self._path}{path}", **self._parameters)
        return read(DocumentInfo, answer)

    def exclude_document(self, document: str) -> DocumentInfo:
        return self._change(document, "exclude")

    def include_document(self, document: str) -> DocumentInfo:
        return self._change(document, "include")

    def _change(self, document: str, change: str) -> DocumentInfo:
        path = f"{self._path}/documents/{self._id(document)}/{change}"
        return read(DocumentInfo, self._server.send("POST", path, params=self._parameters).json())

    def delete_documents(self, filters: Mapping[str, Any], *, dry_run: bool = False) -> Deletion:
        body = self._body(filters=dict(filters), dry_run=dry_run)
        return read(Deletion, self._server.post_patiently(f"{self._path}/documents/delete", body))

    def delete(self) -> None:
        self._server.delete_patiently(f"{self._path}/documents", **self._parameters)

    def ingest(
        self,
        *,
        inputs: Mapping[str, Any] | None = None,
        strategy: str = "upsert",
        only_failed: bool = False,
        allow_mass_delete: bool = False,
        wait: bool = False,
        plan: IngestPlan | None = None,
    ) -> IngestReport:
        """Ingest on the server. The plan is not used, because the server reads the sources
        again."""
        body = self._body(
            inputs=dict(inputs or {}),
            strategy=strategy,
            only_failed=only_failed,
            allow_mass_delete=allow_mass_delete,
        )
        return self._run("ingest", body, wait=wait)

    def reindex(
        self, *, inputs: Mapping[str, Any] | None = None, plan: IngestPlan | None = None
    ) -> IngestReport:
        """Reindex on the server. The plan is not used."""
        return self._run("reindex", self._body(inputs=dict(inputs or {})))

    def pack(self, path: str | Path) -> PackReport:
        """Receive the pack that the server writes, and store it once it is complete."""
        from lorebind_knowledge.packing.archive import PackReader, new_file

        began = time.perf_counter()
        with new_file(path) as out:
            for part in self._server.download(f"{self._path}/pack", **self._parameters):
                out.write(part)
            with PackReader(out) as reader:
                manifest, size = reader.manifest, reader.size
        about = {name: manifest[name] for name in ("documents", "chunks", "added")}
        about |= {"kb_id": self.id, "embedder": manifest["index"]["embedder"], "bytes": size}
        return read(PackReport, about | {"seconds": time.perf_counter() - began})

    def unpack(self, path: str | Path) -> UnpackReport:
        """Send a pack to the server, which unpacks it."""
        from lorebind_knowledge.packing.archive import PackReader

        with PackReader(path):  # refuses what the server would refuse
            answer = self._server.upload(f"{self._path}/unpack", Path(path), **self._parameters)
        return read(UnpackReport, answer)

    def rollback(self, index: int | None = None) -> RollbackReport:
        answer = self._server.post(f"{self._path}/rollback", self._body(index=index))
        return read(RollbackReport, answer)

    @property
    def _parameters(self) -> dict[str, str]:
        return {} if self.workflow is None else {"workflow": self.workflow}

    def _body(self, **fields: Any) -> dict[str, Any]:
        return {"workflow": self.workflow, **fields}

    def _get(self, path: str, **parameters: Any) -> Any:
        return self._server.get(f"{self._path}{path}", workflow=self.workflow, **parameters)

    def _id(self, document: str) -> str:
        """Return the id of a document, for use in a path.

        Raises:
            NotFoundError: no such document or knowledge base.
        """
        name = document if _ID.fullmatch(document) else document_id(document)
        try:
            self._get(f"/documents/{name}")
        except NotFoundError:
            # raises another error if the knowledge base does not exist
            infos = self._get("/documents", limit=HINTS)["items"]
            raise no_document(self.id, document, [info["uri"] for info in infos]) from None
        return name

    def retry_document(self, document: str, *, wait: bool = False) -> IngestReport:
        where = "" if self.workflow is None else f"?workflow={segment(self.workflow)}"
        return self._run(f"documents/{self._id(document)}/retry{where}", {}, wait=wait)

    def _run(self, action: str, body: dict[str, Any], *, wait: bool = False) -> IngestReport:
        path = f"{self._path}/{action}"
        while True:
            try:
                answer = self._server.send_once(path, body)
                break
            except IngestRunningError:
                if not wait:
                    raise
            time.sleep(_PAUSE_SECONDS)
        return self._report(str(answer["run_id"]))

    def _report(self, run_id: str) -> IngestReport:
        """Wait for a run, and return its report.

        Raises:
            LorebindError: the run failed or was cancelled, or the server is gone.
        """
        look = self._server.command(command_of(self._server, self.id, self.workflow, "stats"))
        goes_on = f"run {run_id} continues on the server; check it with: {look}"
        self._tell_end(goes_on)
        ended = self._ended(run_id, goes_on)
        self._tell_end("")
        if ended["report"] is not None:
            return read(IngestReport, ended["report"])
        if ended["error"] is not None:
            raise self._server.error_of(ended["error"])
        raise ServerError(f"run {run_id} of {self.id!r} was {ended['status']}")

    def _ended(self, run_id: str, goes_on: str) -> Any:
        """Wait for the end of a run, and send its events to the extensions."""
        path = f"{self._path}/runs/{run_id}/events"
        with closing(self._server.follow(path, goes_on, params=self._parameters)) as events:
            while (event := next(events)).name != "end":
                if event.name == "waiting" and (why := event.data["waits_for"]):
                    log.warning("run %s waits: %s", run_id, why)
                if event.name in _HOOKS:
                    self._events.emit(event.name, Event(self.id, run_id, event.data))
        return event.data


def _run_info(run: Mapping[str, Any]) -> RunInfo:
    data = {name: run[name] for name in ("run_id", "status", "report", "progress")}
    data |= {"started_at": run["requested_at"], "ended_at": run["finished_at"]}
    strategy, error = run["request"].get("strategy", "upsert"), run["error"] or {}
    return read(RunInfo, {**data, "strategy": strategy, "error": error.get("detail", "")})


def _parameter(filters: Mapping[str, Any] | None) -> str | None:
    return None if filters is None else json.dumps(resolved(filters))
