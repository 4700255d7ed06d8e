"""The workflows of a project on a server: run, stream and resume them, and inspect threads."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lorebind.remote.address import PREFIX
from lorebind.remote.connection import Connection, read, segment
from lorebind.remote.rewording import Rewording
from lorebind_config.errors import LorebindError, NotFoundError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lorebind.remote.run_stream import RemoteRunStream
    from lorebind_bindings import RunResult, ThreadInfo
    from lorebind_bindings.workflow.events.sinks import SinkLike
    from lorebind_bindings.workflow.outline import WorkflowOutline


class RemoteWorkflows:
    """The methods of `RemoteProject` for workflows."""

    _server: Connection

    def workflows(self) -> list[dict[str, Any]]:
        return self._server.all("/workflows")

    def workflow_outline(self, workflow: str) -> WorkflowOutline:
        from lorebind_bindings.workflow.outline import WorkflowOutline

        return read(WorkflowOutline, self._server.get(_path(workflow)))

    def workflow_inputs(self, workflow: str) -> dict[str, dict[str, Any]]:
        known = {workflow["id"]: workflow for workflow in self.workflows()}
        if workflow not in known:
            hint = did_you_mean(workflow, known)
            raise NotFoundError(f"there is no workflow {workflow!r}; {hint}")
        return read(dict, known[workflow]["inputs"])

    def run(
        self,
        workflow: str,
        inputs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> RunResult:
        return self.run_stream(workflow, inputs, **options).read_to_end()

    def run_stream(
        self,
        workflow: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        thread_id: str,
        interrupt_before: Collection[str] = (),
        sinks: Sequence[SinkLike] = (),
    ) -> RemoteRunStream:
        body = {"input": dict(inputs or {}), "thread_id": thread_id}
        path = f"{_path(workflow)}/runs"
        return self._stream(workflow, thread_id, path, body, interrupt_before, sinks)

    def resume(
        self,
        workflow: str,
        thread_id: str,
        answers: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> RunResult:
        return self.resume_stream(workflow, thread_id, answers, **options).read_to_end()

    def resume_stream(
        self,
        workflow: str,
        thread_id: str,
        answers: Mapping[str, Any] | None = None,
        *,
        interrupt_before: Collection[str] = (),
        sinks: Sequence[SinkLike] = (),
    ) -> RemoteRunStream:
        body = {"answers": dict(answers or {})}
        path = f"{_path(workflow)}/threads/{segment(thread_id)}/resume"
        return self._stream(workflow, thread_id, path, body, interrupt_before, sinks)

    def threads(self, workflow: str, *, limit: int = 100) -> list[ThreadInfo]:
        from lorebind_bindings import ThreadInfo

        with self._rewording(workflow, ""):
            found = self._server.all(f"{_path(workflow)}/threads", most=limit)
        for one in found:
            self._server.hints.reword_error(one)
        hidden = {"graph": None, "turn": ""}
        return [read(ThreadInfo, hidden | one) for one in found]

    def history(self, workflow: str, thread_id: str) -> list[dict[str, Any]]:
        with self._rewording(workflow, thread_id):
            found = self._server.get(f"{_path(workflow)}/threads/{segment(thread_id)}")
        for one in found["history"]:
            self._server.hints.reword_error(one)
        return read(list, found["history"])

    def replay(self, workflow: str, thread_id: str, step: int) -> RunResult:
        from lorebind.remote.run_stream import read_result

        path = f"{_path(workflow)}/threads/{segment(thread_id)}/replay"
        with self._rewording(workflow, thread_id):
            found = self._server.post_patiently(path, {"step": step})
        return read_result(self._server, found)

    def _stream(
        self,
        workflow: str,
        thread_id: str,
        path: str,
        body: dict[str, Any],
        interrupt_before: Collection[str],
        sinks: Sequence[SinkLike],
    ) -> RemoteRunStream:
        from lorebind.remote.run_stream import RemoteRunStream

        body["interrupt_before"] = list(interrupt_before)
        words = self._rewording(workflow, thread_id)
        return RemoteRunStream(self._server, path, body, sinks, words)

    def _rewording(self, workflow: str, thread_id: str) -> Rewording:
        """Reword errors that name requests to the server, so that they name commands."""
        place = f"{PREFIX}/workflows/{quote(workflow)}/threads"

        def how_to_resume() -> str:
            from lorebind_bindings.workflow.how_to_resume import resume_command

            waiting: list[Any] = []
            with suppress(LorebindError):  # the other error is the one to report
                thread = self._server.get(f"{_path(workflow)}/threads/{segment(thread_id)}")
                waiting = thread["waiting"]
            return resume_command(workflow, thread_id, waiting) + self._server.hints.options

        return Rewording(
            {
                f"GET {place}": lambda: (
                    f"lorebind workflow threads {workflow}{self._server.hints.options}"
                ),
                f"POST {place}/{quote(thread_id, safe='')}/resume": how_to_resume,
            }
        )


def _path(workflow: str) -> str:
    return f"/workflows/{segment(workflow)}"
