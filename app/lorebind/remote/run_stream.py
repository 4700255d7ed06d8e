"""Stream a workflow run from a server."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from lorebind.remote.connection import Connection, ConnectionLostError, read
from lorebind.remote.errors import ServerError
from lorebind_bindings import RunEvent, RunResult
from lorebind_bindings.workflow.events.sinks import as_sink
from lorebind_config.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lorebind_bindings.workflow.events.sinks import SinkLike


class RemoteRunStream:
    """Events to iterate over once, and then `result`. If you stop reading, the run is cancelled.

    It corresponds to `RunStream` for a local project.
    """

    def __init__(
        self,
        server: Connection,
        path: str,
        body: dict[str, Any],
        sinks: Sequence[SinkLike],
    ) -> None:
        """
        Args:
            server: the connection to the server.
            path: the path of the request that runs the workflow.
            body: the body of that request.
            sinks: additional receivers of the events.

        Raises:
            UsageError: a sink cannot be used.
        """
        self._server, self._path, self._body = server, path, body
        self._sinks: list[Any] = [as_sink(sink) for sink in sinks]
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
            with self._server.events("POST", self._path, json=self._body) as events:
                for sent in events:
                    if sent.name == "error":
                        raise self._server.error_of(sent.data)
                    event = self._event(sent.data)
                    for sink in self._sinks:
                        sink.write(event)
                    yield event
            if self._result is None:
                raise ConnectionLostError("the server disconnected before the run had ended")
        finally:
            for sink in self._sinks:
                sink.close()

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
