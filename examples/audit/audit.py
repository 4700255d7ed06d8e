"""An audit log: one line of JSON per change and per search, with its tenant."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lorebind import Extension

if TYPE_CHECKING:
    from lorebind import Event


class AuditLog(Extension):
    """Appends to a file. The entries contain counts, but no questions and no passages."""

    def __init__(self, path: str) -> None:
        self._path = path

    def ingest_completed(self, event: Event) -> None:
        report = event.data["report"]
        self._write("ingest", event, status=report.status, documents=report.documents)

    def ingest_failed(self, event: Event) -> None:
        self._write("ingest", event, status="failed", kind=event.data["kind"])

    def document_deleted(self, event: Event) -> None:
        self._write("document deleted", event, uri=event.data["uri"])

    def collection_deleted(self, event: Event) -> None:
        self._write("index deleted", event)

    def retrieval_completed(self, event: Event) -> None:
        self._write("search", event, verdict=event.data["verdict"], matches=event.data["matches"])

    def retrieval_failed(self, event: Event) -> None:
        self._write("search", event, verdict="failed", kind=event.data["kind"])

    def _write(self, action: str, event: Event, **about: Any) -> None:
        entry = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "action": action,
            "tenant": event.namespace.tenant if event.namespace else None,
            "knowledge_base": event.kb_id,
            "run_id": event.run_id or None,
            **about,
        }
        try:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
        except OSError:
            logging.getLogger("audit").exception("the audit log cannot be written")
