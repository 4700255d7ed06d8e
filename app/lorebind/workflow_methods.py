"""The methods of `Project` that run and resume workflows and inspect their threads."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lorebind_bindings  # which imports a name at its first use
from lorebind_bindings.workflow.events import EVENT_BUFFER
from lorebind_config.errors import UsageError
from lorebind_config.namespace import tenant
from lorebind_config.plugins import import_extra
from lorebind_knowledge.plumbing.bridge import sync

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping

    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

    from lorebind_bindings import ModelPool, RunResult, RunStream, Workflows
    from lorebind_bindings.workflow.events.bus import EventBus
    from lorebind_bindings.workflow.events.sinks import SinkLike
    from lorebind_bindings.workflow.threads.threads import ThreadInfo
    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_knowledge.service import KnowledgeService

    Start = Callable[[EventBus], Coroutine[Any, Any, RunResult]]


class WorkflowRuntime:
    """The workflows of a project and its views, which share all threads and checkpointers.

    They are created at their first use, because their import takes a while.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workflows: Workflows | None = None

    def of(self, loaded: LoadedProject, service: KnowledgeService, models: ModelPool) -> Workflows:
        with self._lock:  # two sets of workflows would not see each other's running threads
            if self._workflows is None:
                self._workflows = lorebind_bindings.Workflows(loaded, service, models)
        return self._workflows.over(loaded, service)

    async def close(self) -> None:
        if self._workflows is not None:
            await self._workflows.close()


class WorkflowMethods:
    """The methods of `Project` for workflows."""

    config: LoadedProject
    knowledge: KnowledgeService
    _models: ModelPool
    _runtime: WorkflowRuntime

    @property
    def _workflows(self) -> Workflows:
        return self._runtime.of(self.config, self.knowledge, self._models)

    async def arun(
        self,
        workflow: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        thread_id: str | None = None,
        interrupt_before: Collection[str] = (),
        sinks: Sequence[SinkLike] = (),
        event_buffer: int = EVENT_BUFFER,
    ) -> RunResult:
        """Run a workflow: start a new thread, or a new turn of a thread that has completed.

        Args:
            workflow: the id of the workflow.
            inputs: the declared inputs, by name.
            thread_id: any text, used to resume the run; None creates one. On a thread that has
                completed, `messages` and `extra` of the state are preserved.
            interrupt_before: ids of tasks before which the run is paused.
            sinks: receivers of events: `stdout`, the path of a JSON Lines file, a function, or a
                `Sink`. Events contain the outputs of tasks; protect them in the same way.
            event_buffer: maximum number of events that wait for the sinks, or for the reader of a
                stream. If more wait, the oldest ones are lost.

        Returns:
            The output and the results of the tasks. `status` is `waiting` if a task waits for an
            answer, and `paused` before a task of `interrupt_before`.

        Raises:
            NotFoundError: no such workflow, or a task of `interrupt_before`.
            UsageError: an input is missing, unknown, or of another type.
            ThreadRefusedError: the thread runs, waits, is paused or has failed.
            TaskError: a task failed. Finished tasks are kept; `resume` continues from there.
        """
        stream = self.run_stream(
            workflow,
            inputs,
            thread_id=thread_id,
            interrupt_before=interrupt_before,
            sinks=sinks,
            event_buffer=event_buffer,
        )
        return await stream.unread()

    async def aresume(
        self,
        workflow: str,
        thread_id: str,
        answers: Mapping[str, Any] | None = None,
        *,
        interrupt_before: Collection[str] = (),
        sinks: Sequence[SinkLike] = (),
        event_buffer: int = EVENT_BUFFER,
    ) -> RunResult:
        """Resume a thread that waits, is paused, failed or was interrupted.

        Finished tasks do not run again. A thread that has completed gives its result.

        Args:
            workflow: the id of the workflow.
            thread_id: the id of the thread.
            answers: answers for waiting tasks, by their id or their path. Tasks without an answer
                keep waiting.
            interrupt_before: as for `run`.
            sinks: as for `run`.
            event_buffer: as for `run`.

        Raises:
            NotFoundError: no such workflow or thread.
            UsageError: no task waits for an answer, or the answer does not match the schema.
            ThreadRefusedError: it runs now, it has completed with other answers, or the workflow's
                graph has changed.
            TaskError: a task failed.
        """
        stream = self.resume_stream(
            workflow,
            thread_id,
            answers,
            interrupt_before=interrupt_before,
            sinks=sinks,
            event_buffer=event_buffer,
        )
        return await stream.unread()

    def run_stream(
        self,
        workflow: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        thread_id: str | None = None,
        interrupt_before: Collection[str] = (),
        sinks: Sequence[SinkLike] = (),
        event_buffer: int = EVENT_BUFFER,
    ) -> RunStream:
        """Run a workflow as `run` does, and stream its events.

        Iterate over the stream with `for` or `async for`; afterwards, `result` is the result. Model
        output is streamed too. If you stop reading, the run is cancelled; you can resume it. It
        runs for the tenant of this call, even if you read the stream as another tenant.

        Args:
            workflow: as for `run`.
            inputs: as for `run`.
            thread_id: as for `run`.
            interrupt_before: as for `run`.
            sinks: as for `run`.
            event_buffer: as for `run`.

        Raises:
            LorebindError: the same errors as `run`, while you read the stream.
        """
        thread_id = uuid.uuid4().hex if thread_id is None else thread_id
        run = partial(self._workflows.run, thread_id=thread_id, interrupt_before=interrupt_before)
        start = self._attaching(sinks, partial(run, workflow, inputs or {}))
        return lorebind_bindings.RunStream(start, thread_id, event_buffer)

    def resume_stream(
        self,
        workflow: str,
        thread_id: str,
        answers: Mapping[str, Any] | None = None,
        *,
        interrupt_before: Collection[str] = (),
        sinks: Sequence[SinkLike] = (),
        event_buffer: int = EVENT_BUFFER,
    ) -> RunStream:
        """Resume a thread as `resume` does, and stream its events, see `run_stream`."""
        resume = partial(self._workflows.resume, interrupt_before=interrupt_before)
        start = self._attaching(sinks, partial(resume, workflow, thread_id, answers))
        return lorebind_bindings.RunStream(start, thread_id, event_buffer)

    async def athreads(
        self,
        workflow: str,
        *,
        limit: int = 100,
        before: str | None = None,
        after: str | None = None,
    ) -> list[ThreadInfo]:
        """Return the threads of a workflow, newest first.

        Args:
            workflow: the id of the workflow.
            limit: the maximum number of threads.
            before: return only threads whose `turn` is smaller: the next page.
            after: return only threads whose `turn` is larger, the nearest ones: the previous page.

        Raises:
            NotFoundError: no such workflow.
        """
        return await self._workflows.threads(workflow, limit=limit, before=before, after=after)

    async def athread(self, workflow: str, thread_id: str) -> ThreadInfo:
        """Return the status of a thread, and the questions that it waits for.

        Raises:
            NotFoundError: no such workflow or thread.
        """
        return await self._workflows.thread(workflow, thread_id)

    async def astate(self, workflow: str, thread_id: str) -> dict[str, Any]:
        """Return `output`, `messages`, `extra`, `errors` and `channels` after the last turn.

        Keys that no turn has set yet are absent.

        Raises:
            NotFoundError: no such workflow or thread.
        """
        state = await self._workflows.state(workflow, thread_id)
        return {name: state[name] for name in _LEFT if name in state}

    async def ahistory(self, workflow: str, thread_id: str) -> list[dict[str, Any]]:
        """Return the finished tasks of a thread in order: `turn`, `step`, `path`, `output`, …

        Raises:
            NotFoundError: no such workflow or thread.
        """
        return await self._workflows.history(workflow, thread_id)

    async def aresult(self, workflow: str, thread_id: str) -> RunResult:
        """Return the result of the last turn of a thread that has completed, waits or is paused.

        Nothing runs. It is the result that `run` or `resume` returned.

        Raises:
            NotFoundError: no such workflow or thread.
            ThreadRefusedError: it runs now, has failed or was interrupted.
        """
        return await self._workflows.result(workflow, thread_id)

    async def areplay(
        self,
        workflow: str,
        thread_id: str,
        step: int,
        *,
        new_id: str | None = None,
        sinks: Sequence[SinkLike] = (),
        event_buffer: int = EVENT_BUFFER,
    ) -> RunResult:
        """Run the last turn of a thread again after a step, as a new thread.

        Args:
            workflow: the id of the workflow.
            thread_id: the id of the thread, which does not change.
            step: a `step` of `history`; the tasks that ended up to it do not run again. 0 runs all
                tasks again.
            new_id: the id of the new thread, which must not exist; None creates one.
            sinks: as for `run`.
            event_buffer: as for `run`.

        Raises:
            NotFoundError: no such workflow or thread.
            UsageError: the last turn has no such step.
            ThreadRefusedError: a thread `new_id` exists, or the workflow's graph has changed.
            TaskError: a task failed.
        """
        stream = self.replay_stream(
            workflow, thread_id, step, new_id=new_id, sinks=sinks, event_buffer=event_buffer
        )
        return await stream.unread()

    def replay_stream(
        self,
        workflow: str,
        thread_id: str,
        step: int,
        *,
        new_id: str | None = None,
        sinks: Sequence[SinkLike] = (),
        event_buffer: int = EVENT_BUFFER,
    ) -> RunStream:
        """Replay a thread as `replay` does, and stream its events, see `run_stream`."""
        new_id = uuid.uuid4().hex if new_id is None else new_id
        replay = partial(self._workflows.replay, workflow, thread_id, step, new_id=new_id)
        return lorebind_bindings.RunStream(self._attaching(sinks, replay), new_id, event_buffer)

    def graph(
        self, workflow: str, *, checkpointer: BaseCheckpointSaver[Any] | None = None
    ) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Return a workflow as a compiled LangGraph graph, to use as a node of your own graph.

        Its state has `input` (the inputs of the workflow, by name), `output`, and `messages`, which
        tasks read as `{{ .state.messages }}` and may extend. While tasks wait, the graph is
        interrupted; answer with `Command(resume={task: answer})`. A wrong answer causes another
        interrupt, whose value has a `problem`.

        Your checkpointer stores the state of your graph. The workflow also stores a thread for each
        turn in the project's `checkpointer`; the interrupt contains its `thread_id`.

        Args:
            workflow: the id of the workflow.
            checkpointer: stores the state if you run the graph directly. As a node of your graph,
                it uses the checkpointer of your graph.

        Raises:
            NotFoundError: no such workflow.
            MissingDependencyError: LangGraph is not installed.
        """
        import_extra("langgraph.graph", extra="workflow", purpose="running a workflow")
        from lorebind_bindings.workflow.langgraph_node import workflow_graph

        return workflow_graph(self.config, self._workflows, workflow, checkpointer)

    def _attaching(
        self, sinks: Sequence[SinkLike], run: Callable[..., Awaitable[RunResult]]
    ) -> Start:
        """Return a run that sends its events to these sinks, for the tenant of this call.

        Raises:
            UsageError: `sinks` is not a list, or one of them cannot be used.
        """
        from lorebind_bindings.workflow.events.sinks import as_sink  # only runs need it

        if isinstance(sinks, str | Path) or not isinstance(sinks, Sequence):
            raise UsageError(f"sinks must be a list, as in sinks=['stdout']; got {sinks!r}")
        receivers, name = [as_sink(sink) for sink in sinks], self.config.tenant

        async def attached(bus: EventBus) -> RunResult:
            with tenant(name):  # a stream may be read as another tenant
                bus.attach(receivers)
                return await run(bus=bus)

        return attached

    run = sync(arun)
    resume = sync(aresume)
    threads = sync(athreads)
    thread = sync(athread)
    state = sync(astate)
    history = sync(ahistory)
    result = sync(aresult)
    replay = sync(areplay)


_LEFT = ("output", "messages", "extra", "errors", "channels")
