"""Stream a workflow run from a server, in whose background it runs."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from lorebind.remote.connection import Connection, read, segment
from lorebind.remote.errors import ServerError
from lorebind_bindings import RunEvent, RunResult
from lorebind_bindings.workflow.events.sinks import Sink, as_sink
from lorebind_config.errors import LorebindError, UsageError
from lorebind_knowledge.plumbing.bridge import finish

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lorebind_bindings.workflow.events.sinks import SinkLike


class RemoteRunStream:
    """Events to iterate over once, and then `result`. If you stop reading, the run is cancelled.

    It corresponds to `RunStream` for a local project. If the connection is lost, the run continues,
    and the stream goes on after the last event, also after a restart of the server.
    """

    def __init__(
        self,
        server: Connection,
        workflow: str,
        path: str,
        body: dict[str, Any],
        sinks: Sequence[SinkLike],
    ) -> None:
        """
        Args:
            server: the connection to the server.
            workflow: the id of the workflow.
            path: the path of the request that runs it.
            body: the body of that request.
            sinks: additional receivers of the events.

        Raises:
            UsageError: a sink cannot be used.
        """
        self._server, self._path, self._body = server, path, body
        self._runs = f"/workflows/{segment(workflow)}/runs"
        self._sinks = [as_sink(sink) for sink in sinks]
        self._result: RunResult | None = None

    @property
    def result(self) -> RunResult:
        """The result of the run.

        Raises:
            UsageError: the stream has not been read to its end.
        """
        if self._result is None:
            raise UsageError("there is no result; read the stream to its end first")
        return self._result

    def read_to_end(self) -> RunResult:
        """Return the result, ignoring the remaining events.

        Raises:
            LorebindError: the run failed.
        """
        for _ in self:
            pass
        return self.result

    def __iter__(self) -> Iterator[RunEvent]:
        try:
            yield from self._events_of(
                str(self._server.send_once(self._path, self._body)["run_id"])
            )
        finally:
            for sink in self._sinks:
                if close := getattr(sink, "close", None):
                    finish(close())

    def _events_of(self, run_id: str) -> Iterator[RunEvent]:
        run = f"{self._runs}/{run_id}"
        goes_on = f"run {run_id} continues on the server"
        is_over = False
        try:
            with closing(self._server.follow(f"{run}/events", goes_on)) as events:
                for sent in events:
                    if sent.name == "error":
                        raise self._server.error_of(sent.data)
                    event = self._event(sent.data)
                    # After a failure, its error follows.
                    is_over = event.type == "run_end" and event.data["status"] != "failed"
                    for sink in self._sinks:
                        finish(sink.write(event) if isinstance(sink, Sink) else sink(event))
                    yield event
                    if is_over:
                        break
            if self._result is None:
                raise ServerError(f"run {run_id} was cancelled")
        except LorebindError:
            is_over = True
            raise
        finally:
            if not is_over:  # the reader has stopped
                with suppress(LorebindError):
                    self._server.send("DELETE", run)

    def _event(self, data: Any) -> RunEvent:
        if data["type"] == "run_end" and "result" in data["data"]:
            self._result = read_result(self._server, data["data"].pop("result"))
        self._server.complete(data["data"].get("error"))
        try:
            return RunEvent(**{field.name: data[field.name] for field in fields(RunEvent)})
        except (KeyError, TypeError):
            raise ServerError("the server sent an event that cannot be read") from None


def read_result(server: Connection, data: Any) -> RunResult:
    """Return the result of a run, with commands in its error messages that work on this machine.

    Raises:
        ServerError: the data is not a valid result.
    """
    result = read(RunResult, data)
    for task in result.tasks.values():
        server.complete(task.error)
    return result
