"""Run, resume, list and replay the workflows of a project."""

from __future__ import annotations

import time
import uuid
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lorebind_bindings.inputs import check_inputs
from lorebind_bindings.workflow.answers import (
    answered,
    answers_by_path,
    passed_key,
    was_answered,
)
from lorebind_bindings.workflow.events.bus import EventBus
from lorebind_bindings.workflow.how_to_resume import how_to_resume
from lorebind_bindings.workflow.observing import workflow_run
from lorebind_bindings.workflow.outline import differences, signature
from lorebind_bindings.workflow.results import Done, RunResult, TaskResult, skipped
from lorebind_bindings.workflow.running import Parts, TaskFailed
from lorebind_bindings.workflow.state import checked
from lorebind_bindings.workflow.threads.threads import Thread, not_found, open_threads
from lorebind_bindings.workflow.turn import Turn, compile_host, playing
from lorebind_config.errors import (
    LorebindError,
    NotFoundError,
    Suggestion,
    TaskError,
    ThreadRefusedError,
    UsageError,
    did_you_mean,
)
from lorebind_config.namespace import tenant
from lorebind_config.redaction import redacted_message
from lorebind_knowledge.plumbing.run_once import Once

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from lorebind_bindings.models import ModelPool
    from lorebind_bindings.workflow.threads.threads import ThreadInfo, ThreadStore
    from lorebind_config.declarations.workflows import WorkflowDeclaration
    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_knowledge.service import KnowledgeService
    from lorebind_prompts import Citation


class _Opened:
    """Everything that is open, shared by all views of a project."""

    def __init__(self) -> None:
        self.once = Once()
        self.stores: dict[str, ThreadStore] = {}
        self.hosts: dict[str, Any] = {}

    async def close(self) -> None:
        for store in self.stores.values():
            await store.close()
        self.once, self.stores, self.hosts = Once(), {}, {}


class Workflows:
    """The workflows of a project, and the threads of their runs.

    A thread belongs to a tenant and a workflow. Other tenants and workflows cannot find it. All
    methods raise NotFoundError if there is no such workflow or, except `find`, no such thread.
    """

    def __init__(self, loaded: LoadedProject, service: KnowledgeService, models: ModelPool) -> None:
        self._loaded = loaded
        self._parts = Parts(loaded, service, models)
        self._opened = _Opened()

    def over(self, loaded: LoadedProject, service: KnowledgeService) -> Workflows:
        """Return the workflows of a view of the project; they share everything that is open."""
        view = copy(self)
        view._loaded, view._parts = loaded, self._parts.over(loaded, service)
        return view

    async def run(
        self,
        workflow: str,
        inputs: Mapping[str, Any],
        *,
        thread_id: str | None = None,
        interrupt_before: Collection[str] = (),
        bus: EventBus | None = None,
        seed: Sequence[dict[str, Any]] = (),
        state: Mapping[str, Any] | None = None,
    ) -> RunResult:
        """Start a thread, or a new turn of a completed one.

        Args:
            workflow: the id of the workflow.
            inputs: its declared inputs, by name.
            thread_id: any text; None creates a new id.
            interrupt_before: ids of tasks before which the run is paused.
            bus: receives the events of the run.
            seed: records of ended tasks to start with, see `replay`.
            state: the state to start with, see `replay`.

        Raises:
            NotFoundError: there is no such workflow, or no such task in `interrupt_before`.
            UsageError: an input is unknown, missing or invalid.
            ThreadRefusedError: the thread is running or waiting, or has failed; for a replay, it
                exists.
            TaskError: a task failed; the thread can be resumed.
            MissingDependencyError: LangGraph is not installed.
        """
        declared = self._loaded.workflow(workflow)
        _check_tasks(declared, interrupt_before)
        thread = self._thread(workflow, uuid.uuid4().hex if thread_id is None else thread_id)
        store = await self._store(declared)
        async with store.claimed(thread) as info:
            if info is not None and state is not None:
                raise ThreadRefusedError(
                    f"thread {thread.id!r} of workflow {workflow!r} already exists, and a replay "
                    "is a new thread; choose another id, or omit it"
                )
            if info is not None and info.status != "completed":
                raise _still_open(self._loaded, thread, info)
            # Checked after the status: a waiting thread needs an answer, not inputs.
            values = checked(check_inputs(declared, inputs), f"the input of workflow {workflow!r}")
            start = {"input": values, "status": "running", **(state or {})}
            bus = bus or EventBus(thread.id)
            turn = Turn(self._parts, store, thread, declared, bus, interrupt_before, seed)
            return await self._play(turn, start, values, resumed=False)

    async def resume(
        self,
        workflow: str,
        thread_id: str,
        answers: Mapping[str, Any] | None = None,
        *,
        interrupt_before: Collection[str] = (),
        bus: EventBus | None = None,
    ) -> RunResult:
        """Resume a thread that waits, is paused, failed or was interrupted.

        Finished tasks do not run again. A thread that has completed gives its result.

        Args:
            workflow: the id of the workflow.
            thread_id: the id of the thread.
            answers: answers for waiting tasks, by their id or path. Tasks without an answer stay
                waiting.
            interrupt_before: ids of tasks before which the run is paused.
            bus: receives the events of the run.

        Raises:
            NotFoundError: there is no such workflow or thread, or no such task in
                `interrupt_before`.
            UsageError: no task waits for an answer, or an answer does not match its schema.
            ThreadRefusedError: the thread is running or has completed with other answers, or its
                workflow's graph has changed.
            TaskError: a task failed.
        """
        declared = self._loaded.workflow(workflow)
        _check_tasks(declared, interrupt_before)
        thread = self._thread(workflow, thread_id)
        store = await self._store(declared)
        async with store.claimed(thread) as info:
            if info is None:
                raise not_found(thread)
            bus = bus or EventBus(thread.id)
            if info.status == "completed":  # perhaps just before its process was killed
                return await self._completed(store, thread, declared, answers or {}, bus)
            self._refuse_changed(info)
            by_path = answers_by_path(info.waiting, answers or {})
            if info.status == "failed":
                await store.begin_again(thread)
            records = [answered(path, answer) for path, answer in by_path.items()]
            records += [{"key": passed_key(path)} for path in info.paused]
            turn = Turn(self._parts, store, thread, declared, bus, interrupt_before, records)
            return await self._play(turn, None, {}, resumed=True)

    async def find(self, workflow: str, thread_id: str) -> ThreadInfo | None:
        """Return the status of a thread; None if there is no such thread."""
        store = await self._store(self._loaded.workflow(workflow))
        return await store.find(self._thread(workflow, thread_id))

    async def thread(self, workflow: str, thread_id: str) -> ThreadInfo:
        """Return the status of an existing thread."""
        store = await self._store(self._loaded.workflow(workflow))
        return await self._info(store, self._thread(workflow, thread_id))

    async def state(self, workflow: str, thread_id: str) -> dict[str, Any]:
        """Return `output`, `messages`, `extra`, `errors` and `channels` after the last turn."""
        store = await self._store(self._loaded.workflow(workflow))
        return await store.state(self._thread(workflow, thread_id))

    async def result(self, workflow: str, thread_id: str) -> RunResult:
        """Return the result of a thread that has completed, waits or is paused; nothing runs.

        Raises:
            NotFoundError: there is no such workflow or thread.
            ThreadRefusedError: the thread runs, has failed or was interrupted.
        """
        declared, thread = self._loaded.workflow(workflow), self._thread(workflow, thread_id)
        store = await self._store(declared)
        info = await self._info(store, thread)
        if info.status == "completed":
            return await self._completed(store, thread, declared, {}, EventBus(thread_id))
        if info.status not in ("waiting", "paused"):
            raise ThreadRefusedError(
                f"thread {thread_id!r} of workflow {workflow!r} has no result; its status is "
                f"{info.status!r}"
            )
        return await _suspended(store, thread, info.waiting, info.paused)

    async def threads(
        self,
        workflow: str,
        *,
        limit: int = 100,
        before: str | None = None,
        after: str | None = None,
    ) -> list[ThreadInfo]:
        """Return the threads of a workflow, the newest first, see `ThreadStore.list`."""
        declared = self._loaded.workflow(workflow)
        store = await self._store(declared)
        thread = self._thread(workflow, "")
        return await store.list(thread.tenant, thread.project, workflow, limit, before, after)

    async def history(self, workflow: str, thread_id: str) -> list[dict[str, Any]]:
        """Return the tasks that ended in a thread, in the order in which they ended.

        Each has its `turn` and `step`, both counted from 1, its `path`, `status`, `output`,
        `error`, `attempts`, `seconds`, and the time `at` which it ended."""
        thread = self._thread(workflow, thread_id)
        store = await self._store(self._loaded.workflow(workflow))
        return [
            {
                "turn": number,
                "step": step,
                "path": done["key"],
                "status": done["status"],
                "output": done["outcome"]["output"],
                "error": done["error"],
                "attempts": done["attempts"],
                "seconds": done["seconds"],
                "at": done["at"],
            }
            for number, turn in enumerate(await store.turns(thread), start=1)
            for step, done in enumerate(_steps(turn.records.values()), start=1)
        ]

    async def replay(
        self,
        workflow: str,
        thread_id: str,
        step: int,
        *,
        new_id: str | None = None,
        bus: EventBus | None = None,
    ) -> RunResult:
        """Run the last turn of a thread again after a given step, as a new thread.

        Args:
            workflow: the id of the workflow.
            thread_id: the thread to replay, which does not change.
            step: number of ended tasks whose results are reused, see `history`; 0 reuses none.
            new_id: the id of the new thread, which must not exist; None creates one.
            bus: receives the events of the run.

        Raises:
            NotFoundError: there is no such workflow or thread.
            UsageError: the turn has no such step.
            ThreadRefusedError: the workflow's graph has changed, the thread was interrupted
                before its first task, or a thread `new_id` exists.
            TaskError: a task failed.
        """
        thread = self._thread(workflow, thread_id)
        store = await self._store(self._loaded.workflow(workflow))
        self._refuse_changed(await self._info(store, thread))
        turns = await store.turns(thread)
        if not turns:
            how = how_to_resume(self._loaded, workflow, thread_id)
            raise ThreadRefusedError(
                f"thread {thread_id!r} of workflow {workflow!r} was interrupted before its first "
                f"task, there is nothing to replay; resume it: {how}",
                suggestions=[how],
            )
        turn = turns[-1]
        steps = _steps(turn.records.values())
        if not 0 <= step <= len(steps):
            raise UsageError(
                f"thread {thread_id!r} has no step {step} in its last turn; expected 0 to "
                f"{len(steps)}",
                at=("step",),
            )
        keys = {done["key"] for done in steps[:step]}
        # Also the answers to these tasks, whose keys are `path|answer`.
        seed = [
            record for record in turn.records.values() if record["key"].partition("|")[0] in keys
        ]
        state = {name: turn.state.get(name) for name in ("messages", "extra")}
        return await self.run(
            workflow, turn.state["input"], thread_id=new_id, seed=seed, state=state, bus=bus
        )

    def _refuse_changed(self, info: ThreadInfo) -> None:
        """Refuse a thread whose workflow's graph has changed since it was started."""
        if changed := differences(info.graph or {}, signature(self._loaded, info.workflow)):
            raise ThreadRefusedError(
                f"workflow {info.workflow!r} has changed since thread {info.thread_id!r} was "
                f"started: {', '.join(map(repr, changed))}; restore its graph or start a new thread"
            )

    async def close(self) -> None:
        """Close the stores of the threads."""
        await self._opened.close()

    async def _play(
        self, turn: Turn, start: Any, inputs: Mapping[str, Any], *, resumed: bool
    ) -> RunResult:
        """Run the turn with LangGraph, emit its first and last events, and return its result."""
        thread, bus, workflow, began = turn.thread, turn.bus, turn.declared.id, time.monotonic()
        bus.emit("run_start", workflow=workflow, resumed=resumed, inputs=sorted(inputs))
        config = thread.config
        config["metadata"]["graph"] = signature(self._loaded, workflow)
        status, details = "failed", dict[str, Any]()
        token = playing.set(turn)
        try:
            events = self._parts.service.events
            with workflow_run(events, thread, resumed=resumed) as run, tenant(thread.tenant):
                # The checkpoint must be stored before the tasks run: their records belong to it.
                values = await self._host(turn).ainvoke(start, config, durability="sync")
                result = await self._result(turn, values)
                run.data["status"] = status = result.status
            return result
        except TaskFailed as failed:
            details = {"error": failed.error}
            raise _task_error(self._loaded, failed, thread) from failed.cause
        except BaseException as error:
            if isinstance(error, Exception):
                kind = type(error).__name__
                words = redacted_message(error).removeprefix(f"{kind}: ")
                details = {"error": {"type": kind, "message": words}}
            else:
                status = "cancelled"
            raise
        finally:
            playing.reset(token)
            bus.emit(
                "run_end", status=status, seconds=round(time.monotonic() - began, 4), **details
            )

    async def _result(self, turn: Turn, values: Mapping[str, Any]) -> RunResult:
        if interrupts := values.get("__interrupt__"):
            suspended = interrupts[0].value
            turn.bus.emit("waiting", waiting=suspended["waiting"], paused=suspended["paused"])
            return await _suspended(
                turn.store, turn.thread, suspended["waiting"], suspended["paused"]
            )
        if "output" not in values:
            raise turn.store.saver.damaged(turn.thread.id, "its output is missing")
        return _run_result(turn.thread, values["output"], turn.tasks)

    async def _completed(
        self,
        store: ThreadStore,
        thread: Thread,
        declared: WorkflowDeclaration,
        answers: Mapping[str, Any],
        bus: EventBus,
    ) -> RunResult:
        """Return the result of a completed thread, unless there are answers it did not receive."""
        turns, state = await store.turns(thread), await store.state(thread)
        if not turns or "output" not in state:
            raise store.saver.damaged(thread.id, "its last turn or its output is missing")
        records = turns[-1].records
        if not all(was_answered(name, answer, records) for name, answer in answers.items()):
            raise ThreadRefusedError(
                f"thread {thread.id!r} of workflow {thread.workflow!r} has completed, and no task "
                "waits for an answer; give it new inputs instead"
            )
        bus.emit("run_start", workflow=thread.workflow, resumed=True, inputs=[])
        tasks = {task.id: skipped(task.id) for task in declared.tasks}
        result = _run_result(thread, state["output"], tasks | _ended(records.values()))
        bus.emit("run_end", status=result.status, seconds=0.0)
        return result

    def _thread(self, workflow: str, thread_id: str) -> Thread:
        loaded = self._loaded
        return Thread(
            loaded.tenant, loaded.project.name, workflow, thread_id, loaded.tenancy_required
        )

    async def _info(self, store: ThreadStore, thread: Thread) -> ThreadInfo:
        info = await store.find(thread)
        if info is None:
            raise not_found(thread)
        return info

    async def _store(self, declared: WorkflowDeclaration) -> ThreadStore:
        """Return the thread store of a workflow; each is opened once."""
        checkpointer = self._loaded.checkpointer(declared)
        key, opened = checkpointer.model_dump_json(), self._opened

        async def open_it() -> None:
            opened.stores[key] = await open_threads(
                checkpointer, self._loaded.environment, self._loaded.beside_threads(declared)
            )

        await opened.once.do(key, open_it)
        return opened.stores[key]

    def _host(self, turn: Turn) -> Any:
        name, hosts = turn.declared.id, self._opened.hosts
        if name not in hosts:
            hosts[name] = compile_host(turn.declared, turn.store.saver)
        return hosts[name]


def _check_tasks(declared: WorkflowDeclaration, names: Collection[str]) -> None:
    ids = [task.id for task in declared.every_task()]
    if isinstance(names, str):
        raise UsageError(f"interrupt_before must be a list, as in [{names!r}]; got a text")
    for name in names:
        if name not in ids:
            raise NotFoundError(
                f"workflow {declared.id!r} has no task {name!r}; {did_you_mean(name, ids)}"
            )


def _still_open(loaded: LoadedProject, thread: Thread, info: ThreadInfo) -> ThreadRefusedError:
    """Explain why a thread accepts no new input, and how to resume it."""
    what = {
        "waiting": "waits for answers",
        "paused": "is paused",
        "failed": "has failed",
        "running": "runs",
    }.get(info.status, "was interrupted")
    how = how_to_resume(loaded, thread.workflow, thread.id, info.waiting)
    return ThreadRefusedError(
        f"thread {thread.id!r} of workflow {thread.workflow!r} {what} and accepts no new input "
        f"before it has completed; resume it: {how}",
        suggestions=[how],
    )


def _steps(records: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the records of ended tasks, in the order in which they ended."""
    ended = (record for record in records if "outcome" in record)
    # Tasks that end while a write is running have the same step.
    return sorted(ended, key=lambda record: (record["step"], record["at"]))


def _ended(records: Iterable[Mapping[str, Any]]) -> dict[str, Done]:
    """Return the outer tasks that have ended by id; of a loop, the last round."""
    ended = map(Done.from_json, _steps(records))
    return {done.key.partition("#")[0]: done for done in ended if not {*done.key} & set(".[")}


async def _suspended(
    store: ThreadStore, thread: Thread, waiting: list[dict[str, Any]], paused: list[str]
) -> RunResult:
    """Return the result of a thread that waits for answers, or is paused before tasks."""
    journal = await store.journal(thread)
    result = _run_result(thread, None, _ended(journal.records.values()))
    status = "waiting" if waiting else "paused"
    return replace(result, status=status, waiting=waiting, paused=paused)


def _run_result(thread: Thread, output: Any, done: Mapping[str, Done]) -> RunResult:
    tasks = {name: task.result() for name, task in _with_parts(done)}
    usage = {name: task.outcome.usage for name, task in done.items()}
    return RunResult(output, tasks, _cited(tasks.values()), thread.id, usage)


def _with_parts(tasks: Mapping[str, Done]) -> Iterator[tuple[str, Done]]:
    """Yield tasks, each followed by the tasks of its branches."""
    for name, done in tasks.items():
        yield name, done
        yield from _with_parts(done.outcome.parts)


def _cited(results: Iterable[TaskResult]) -> list[Citation]:
    """Return the citations of all results, without duplicates."""
    cited = {citation.id: citation for result in results for citation in result.citations}
    return list(cited.values())


def _task_error(loaded: LoadedProject, failed: TaskFailed, thread: Thread) -> TaskError:
    error = failed.error
    is_ours = isinstance(failed.cause, LorebindError)
    message = error["message"] if is_ours else f"{error['type']}: {error['message']}"
    how = how_to_resume(loaded, thread.workflow, thread.id)
    return TaskError(
        f"task {error['path']!r} of workflow {thread.workflow!r} failed: {message}; finished tasks "
        f"are saved, resume with: {how}",
        task=error["task"],
        path=error["path"],
        thread_id=thread.id,
        suggestions=[Suggestion(error["command"]), how] if "command" in error else [how],
    )
