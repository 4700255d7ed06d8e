"""The workflows of a project: run, watched, resumed, and what their threads did."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorebind_bindings.workflow.events.bus import EventBus
from lorebind_bindings.workflow.events.sinks import as_sink
from lorebind_bindings.workflow.run_stream import RunStream
from lorebind_knowledge.bridge import sync
from lorebind_knowledge.errors import UsageError
from lorebind_knowledge.extras import import_extra

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping

    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

    from lorebind_bindings import RunResult, Workflows
    from lorebind_bindings.workflow.events.sinks import SinkLike
    from lorebind_bindings.workflow.threads.threads import ThreadInfo
    from lorebind_knowledge.configuration import LoadedProject

    Start = Callable[[EventBus], Coroutine[Any, Any, RunResult]]


class WorkflowMethods:
    """A part of `Project`."""

    config: LoadedProject
    _workflows: Workflows

    async def arun(
        self,
        workflow: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        thread_id: str | None = None,
        interrupt_before: Collection[str] = (),
        sinks: Sequence[SinkLike] = (),
    ) -> RunResult:
        """Run a workflow: begin a thread, or a new turn of one that has completed.

        Args:
            workflow: its id.
            inputs: its declared inputs, by name.
            thread_id: any text, by which the run can be resumed; None makes one up. On a thread
                that has completed, `messages` and `extra` of the state stay.
            interrupt_before: ids of tasks before which the run is paused.
            sinks: where its events go: `stdout`, a path of a file of JSON Lines, a function, or a
                `Sink`. Events contain the outputs of tasks; protect them in the same way.

        Returns:
            The output and the results of its tasks. `status` is `waiting` if a task waits for an
            answer, and `paused` before a task of `interrupt_before`.

        Raises:
            NotFoundError: no such workflow, or a task of `interrupt_before`.
            UsageError: an input is missing, unknown, or of another type.
            ThreadRefusedError: the thread runs, waits, is paused or has failed.
            TaskError: a task failed. Finished tasks are kept; `resume` continues from there.
        """
        thread_id = uuid.uuid4().hex if thread_id is None else thread_id
        start = self._start(workflow, inputs, thread_id, interrupt_before, sinks)
        return await _ran(start, thread_id)

    async def aresume(
        self,
        workflow: str,
        thread_id: str,
        answers: Mapping[str, Any] | None = None,
        *,
        interrupt_before: Collection[str] = (),
        sinks: Sequence[SinkLike] = (),
    ) -> RunResult:
        """Resume a thread that waits, is paused, failed or was interrupted.

        Finished tasks do not run again.

        Args:
            workflow: its id.
            thread_id: the thread's.
            answers: for tasks that wait, by their id or their path. The others go on waiting.
            interrupt_before, sinks: as for `run`.

        Raises:
            NotFoundError: no such workflow or thread.
            UsageError: no task waits for an answer, or the answer does not match the schema.
            ThreadRefusedError: it has completed, runs now, or the workflow's graph has changed.
            TaskError: a task failed.
        """
        start = self._resumption(workflow, thread_id, answers, interrupt_before, sinks)
        return await _ran(start, thread_id)

    def run_stream(
        self,
        workflow: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        thread_id: str | None = None,
        interrupt_before: Collection[str] = (),
        sinks: Sequence[SinkLike] = (),
    ) -> RunStream:
        """The same as `run`, event by event: iterate over it, with `for` or `async for`.

        Its `result` is there afterwards. Models are streamed. If you stop reading, the run is
        cancelled; it can be resumed.

        Args:
            workflow, inputs, thread_id, interrupt_before, sinks: as for `run`.

        Raises:
            LorebindError: the same errors as `run`, while you read the stream.
        """
        thread_id = uuid.uuid4().hex if thread_id is None else thread_id
        start = self._start(workflow, inputs, thread_id, interrupt_before, sinks)
        return RunStream(start, thread_id)

    def resume_stream(
        self,
        workflow: str,
        thread_id: str,
        answers: Mapping[str, Any] | None = None,
        *,
        interrupt_before: Collection[str] = (),
        sinks: Sequence[SinkLike] = (),
    ) -> RunStream:
        """The same as `resume`, event by event, see `run_stream`."""
        start = self._resumption(workflow, thread_id, answers, interrupt_before, sinks)
        return RunStream(start, thread_id)

    async def athreads(
        self,
        workflow: str,
        *,
        limit: int = 100,
        before: str | None = None,
        after: str | None = None,
    ) -> list[ThreadInfo]:
        """The threads of a workflow that the tenant has, the newest first.

        Args:
            workflow: its id.
            limit: how many at most.
            before: only those whose `turn` is smaller: the next page.
            after: only those whose `turn` is larger, the nearest ones to it: the page before.

        Raises:
            NotFoundError: no such workflow.
        """
        return await self._workflows.threads(workflow, limit=limit, before=before, after=after)

    async def athread(self, workflow: str, thread_id: str) -> ThreadInfo:
        """The status of a thread, and what it waits for.

        Raises:
            NotFoundError: no such workflow or thread.
        """
        return await self._workflows.thread(workflow, thread_id)

    async def astate(self, workflow: str, thread_id: str) -> dict[str, Any]:
        """`output`, `messages`, `extra`, `errors` and `channels`, as the last turn left them.

        Those that no turn has left yet are not there.

        Raises:
            NotFoundError: no such workflow or thread.
        """
        state = await self._workflows.state(workflow, thread_id)
        return {name: state[name] for name in _LEFT if name in state}

    async def ahistory(self, workflow: str, thread_id: str) -> list[dict[str, Any]]:
        """The tasks that ended in a thread, in that order: `turn`, `step`, `path`, `output`, …

        Raises:
            NotFoundError: no such workflow or thread.
        """
        return await self._workflows.history(workflow, thread_id)

    async def areplay(
        self, workflow: str, thread_id: str, step: int, *, new_id: str | None = None
    ) -> RunResult:
        """Run the last turn of a thread again from after a step, as a new thread.

        Args:
            workflow: its id.
            thread_id: the thread's, which stays as it is.
            step: of `history`; the tasks that ended up to it do not run again. 0 keeps none.
            new_id: of the new thread; None makes one up.

        Raises:
            NotFoundError: no such workflow or thread.
            UsageError: the last turn has no such step.
            TaskError: a task failed.
        """
        return await self._workflows.replay(workflow, thread_id, step, new_id=new_id)

    def keeps_threads(self, workflow: str) -> bool:
        """Whether the threads of a workflow stay when the project is closed.

        Raises:
            NotFoundError: no such workflow.
        """
        own = self.config.workflow(workflow).checkpointer
        return (own or self.config.project.checkpointer).type != "memory"

    def how_to_resume(
        self, workflow: str, thread_id: str, waiting: Sequence[Mapping[str, Any]] = ()
    ) -> str:
        """The command that goes on with a thread, for messages.

        Args:
            workflow, thread_id: of the thread.
            waiting: what it waits for, see `RunResult`.
        """
        from lorebind_bindings.workflow.how_to_resume import how_to_resume

        return how_to_resume(self.config, workflow, thread_id, waiting)

    def graph(
        self, workflow: str, *, checkpointer: BaseCheckpointSaver[Any] | None = None
    ) -> CompiledStateGraph[Any, Any, Any, Any]:
        """A workflow as a compiled graph of LangGraph, for a node of your own graph.

        Its state has `input` (the inputs of the workflow, by name), `output`, and `messages`, which
        tasks know as `{{ .state.messages }}` and may add to. While tasks wait, it is interrupted;
        `Command(resume={task: answer})` answers. A wrong answer is a new interrupt, whose value has
        a `problem`. Your checkpointer keeps your graph's state. The workflow keeps a thread of its
        own for each turn, named in the interrupt as `thread_id`, where the project's
        `checkpointer` says.

        Args:
            workflow: its id.
            checkpointer: keeps the state if you run the graph itself. As a node of your graph it
                uses the checkpointer of your graph.

        Raises:
            NotFoundError: no such workflow.
            MissingDependencyError: LangGraph is not installed.
        """
        import_extra("langgraph.graph", extra="workflow", purpose="running a workflow")
        from lorebind_bindings.workflow.langgraph_node import workflow_graph

        return workflow_graph(self.config, self._workflows, workflow, checkpointer)

    def _start(
        self,
        workflow: str,
        inputs: Mapping[str, Any] | None,
        thread_id: str,
        interrupt_before: Collection[str],
        sinks: Sequence[SinkLike],
    ) -> Start:
        run = partial(self._workflows.run, thread_id=thread_id, interrupt_before=interrupt_before)
        return _attaching(sinks, partial(run, workflow, inputs or {}))

    def _resumption(
        self,
        workflow: str,
        thread_id: str,
        answers: Mapping[str, Any] | None,
        interrupt_before: Collection[str],
        sinks: Sequence[SinkLike],
    ) -> Start:
        resume = partial(self._workflows.resume, interrupt_before=interrupt_before)
        return _attaching(sinks, partial(resume, workflow, thread_id, answers))

    run = sync(arun)
    resume = sync(aresume)
    threads = sync(athreads)
    thread = sync(athread)
    state = sync(astate)
    history = sync(ahistory)
    replay = sync(areplay)


_LEFT = ("output", "messages", "extra", "errors", "channels")


def _attaching(sinks: Sequence[SinkLike], run: Callable[..., Awaitable[RunResult]]) -> Start:
    """What runs with these sinks for its events; a sink that cannot be used is refused now.

    Raises:
        UsageError: `sinks` is no list, or one of them cannot be used.
    """
    if isinstance(sinks, str | Path) or not isinstance(sinks, Sequence):
        raise UsageError(f"sinks must be a list, as in sinks=['stdout']; got {sinks!r}")
    made = [as_sink(sink) for sink in sinks]

    async def attached(bus: EventBus) -> RunResult:
        for sink in made:
            bus.attach(sink)
        return await run(bus=bus)

    return attached


async def _ran(start: Start, thread_id: str) -> RunResult:
    bus = EventBus(thread_id)
    try:
        return await start(bus)
    finally:
        await bus.close()
