"""The workflows of a project on a server: run, stream and resume them, and inspect threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind.remote.connection import Connection, read, segment

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
        body: dict[str, Any] = {"input": dict(inputs or {}), "thread_id": thread_id}
        body["interrupt_before"] = list(interrupt_before)
        return self._stream(workflow, "runs", body, sinks)

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
        body = {"answers": dict(answers or {}), "interrupt_before": list(interrupt_before)}
        return self._stream(workflow, f"threads/{segment(thread_id)}/resume", body, sinks)

    def threads(self, workflow: str, *, limit: int = 100) -> list[ThreadInfo]:
        from lorebind_bindings import ThreadInfo

        threads = self._server.all(f"{_path(workflow)}/threads", most=limit)
        for thread in threads:
            self._server.complete(thread, "error")
        hidden = {"graph": None, "turn": ""}
        return [read(ThreadInfo, hidden | thread) for thread in threads]

    def history(self, workflow: str, thread_id: str) -> list[dict[str, Any]]:
        history = self._server.get(f"{_path(workflow)}/threads/{segment(thread_id)}")["history"]
        for task in history:
            self._server.complete(task["error"])
        return read(list, history)

    def replay(self, workflow: str, thread_id: str, step: int, **options: Any) -> RunResult:
        return self.replay_stream(workflow, thread_id, step, **options).read_to_end()

    def replay_stream(
        self, workflow: str, thread_id: str, step: int, *, sinks: Sequence[SinkLike] = ()
    ) -> RemoteRunStream:
        path = f"threads/{segment(thread_id)}/replay"
        return self._stream(workflow, path, {"step": step}, sinks)

    def _stream(
        self, workflow: str, path: str, body: dict[str, Any], sinks: Sequence[SinkLike]
    ) -> RemoteRunStream:
        from lorebind.remote.run_stream import RemoteRunStream

        return RemoteRunStream(self._server, workflow, f"{_path(workflow)}/{path}", body, sinks)


def _path(workflow: str) -> str:
    return f"/workflows/{segment(workflow)}"
