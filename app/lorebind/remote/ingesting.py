"""Ingests that run on a server and are watched from here."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from lorebind.remote.connection import Connection, read, segment
from lorebind.remote.errors import ServerError
from lorebind_config.errors import IngestRunningError
from lorebind_knowledge.events import Event, Events, Extension
from lorebind_knowledge.ingest.report import IngestPlan, IngestReport

_TRIES = 20
_PAUSE_SECONDS = 1.5
"""A restarted server resumes its runs, so the client keeps trying for a while."""

_HOOKS = vars(Extension)


class RemoteIngests:
    """The methods of `RemoteProject` for ingests."""

    events: Events
    _server: Connection
    _tell_end: Callable[[str], None]

    def ingest(
        self,
        kb_id: str,
        *,
        workflow: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        strategy: str = "upsert",
        only_failed: bool = False,
        allow_mass_delete: bool = False,
        wait: bool = False,
        plan: IngestPlan | None = None,
    ) -> IngestReport:
        """Ingest on the server. The plan is not used, because the server reads the sources
        again."""
        body = {
            "workflow": workflow,
            "inputs": dict(inputs or {}),
            "strategy": strategy,
            "only_failed": only_failed,
            "allow_mass_delete": allow_mass_delete,
        }
        return self._run(kb_id, "ingest", workflow, body, wait=wait)

    def reindex(
        self,
        kb_id: str,
        *,
        workflow: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        plan: IngestPlan | None = None,
    ) -> IngestReport:
        """Reindex on the server. The plan is not used."""
        body = {"workflow": workflow, "inputs": dict(inputs or {})}
        return self._run(kb_id, "reindex", workflow, body)

    def _run(
        self,
        kb_id: str,
        action: str,
        workflow: str | None,
        body: dict[str, Any],
        *,
        wait: bool = False,
    ) -> IngestReport:
        path = f"/knowledge-bases/{segment(kb_id)}"
        # The key makes retries after a lost answer refer to the same run.
        key = {"Idempotency-Key": uuid.uuid4().hex}
        while True:
            try:
                asked = self._server.send("POST", f"{path}/{action}", json=body, headers=key).json()
                break
            except IngestRunningError:
                if not wait:
                    raise
            time.sleep(_PAUSE_SECONDS)
        return self._report(kb_id, str(asked["run_id"]), workflow)

    def _report(self, kb_id: str, run_id: str, workflow: str | None) -> IngestReport:
        """Wait for a run, and return its report.

        Raises:
            LorebindError: the run failed or was cancelled, or the server is gone.
        """
        where = "" if workflow is None else f" --workflow {workflow}"
        look = f"lorebind knowledge stats {kb_id}{where}{self._server.hints.options}"
        goes_on = f"run {run_id} continues on the server; check it with: {look}"
        self._tell_end(goes_on)
        ended = self._ended(kb_id, run_id, workflow, goes_on)
        self._tell_end("")
        if ended["report"] is not None:
            return read(IngestReport, ended["report"])
        if ended["error"] is not None:
            raise self._server.error_of(ended["error"])
        raise ServerError(f"run {run_id} of {kb_id!r} was {ended['status']}")

    def _ended(self, kb_id: str, run_id: str, workflow: str | None, goes_on: str) -> Any:
        """Wait for the end of a run, and send its events to the extensions."""
        path = f"/knowledge-bases/{segment(kb_id)}/runs/{run_id}/events"
        last: str | None = None
        parameters = {} if workflow is None else {"workflow": workflow}
        tries = 0
        while True:
            try:
                with self._server.events("GET", path, last, params=parameters) as events:
                    for event in events:
                        if event.name == "end":
                            return event.data
                        tries, last = 0, event.id
                        if event.name in _HOOKS:
                            self.events.emit(event.name, Event(kb_id, run_id, event.data))
            except ServerError as error:
                if not error.may_pass or tries >= _TRIES:
                    raise ServerError(f"{error}; {goes_on}", error.code) from None
            tries += 1
            time.sleep(_PAUSE_SECONDS)
