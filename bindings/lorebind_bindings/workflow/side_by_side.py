"""Run several lists of tasks concurrently, such as branches and items, with a failure strategy."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lorebind_bindings.workflow.results import Update, together
from lorebind_bindings.workflow.running import Suspended, TaskFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from lorebind_bindings.workflow.schedule import FlowResult
    from lorebind_config.declarations.tasks import Strategy

    Job = Callable[[], Awaitable[FlowResult]]


@dataclass(slots=True)
class JobResult:
    """The result of one branch or item."""

    value: FlowResult | None = None
    error: TaskFailed | None = None
    suspended: Suspended | None = None

    def updates(self, path: str) -> list[Update]:
        """Return what it wrote into channels; a tolerated failure is added to `errors`."""
        if self.error is not None:
            return [Update("errors", self.error.error, path)]
        return self.value.updates if self.value is not None else []

    def as_item(self) -> dict[str, Any]:
        """Return the record of an item, without its output; plain JSON."""
        tasks = list(self.value.tasks.values()) if self.value is not None else []
        status = "failed" if self.error else "cancelled" if self.value is None else "completed"
        outcome = together(done.outcome for done in tasks)
        return {
            "status": status,
            "error": self.error.error if self.error else None,
            "attempts": self.error.attempts
            if self.error
            else max((done.attempts for done in tasks), default=0),
            "verdict": outcome.verdict,
            "citations": [asdict(citation) for citation in outcome.citations],
            "unknown_markers": outcome.unknown_markers,
        }


async def side_by_side(
    jobs: Sequence[Job], workers: int, strategy: Strategy
) -> tuple[list[JobResult], TaskFailed | None]:
    """Run several lists of tasks concurrently, started in their order.

    Args:
        jobs: each raises TaskFailed or Suspended, or returns a result.
        workers: maximum number of concurrent jobs.
        strategy: `wait_all` ends all jobs and then fails if one failed, `fail_fast` cancels the
            others immediately, `best_effort` continues without failed jobs, `race` takes the first
            job that succeeds and cancels the others.

    Returns:
        The results of all jobs, and the failure of the task that contains them, if it fails: the
        first failure in the order of the jobs. With `race`, it fails only if all jobs failed.

    Raises:
        Suspended: some jobs wait, and the others have ended.
    """
    results = [JobResult() for _ in jobs]
    # One iterator for all workers: each job starts once, in order.
    numbered = iter(enumerate(jobs))
    enough = asyncio.Event()

    async def worker() -> None:
        for index, job in numbered:
            if enough.is_set():
                return
            try:
                value = await job()
                if strategy == "race":
                    if enough.is_set():
                        return  # another job was faster, but has not cancelled this one yet
                    enough.set()
                results[index].value = value
            except Suspended as suspended:
                results[index].suspended = suspended
            except TaskFailed as failed:
                results[index].error = failed
                if strategy == "fail_fast":
                    enough.set()

    await _until(enough, [asyncio.create_task(worker()) for _ in range(min(workers, len(jobs)))])
    failures = [result.error for result in results if result.error is not None]
    succeeded = any(result.value is not None for result in results)
    if strategy == "race":
        if succeeded:
            # Nobody needs the answers that other jobs wait for.
            return [JobResult(result.value, result.error) for result in results], None
    elif strategy != "best_effort" and failures:
        return results, failures[0]
    if waiting := [result.suspended for result in results if result.suspended is not None]:
        raise Suspended.all_of(waiting)
    return results, failures[0] if strategy == "race" and failures else None


async def _until(enough: asyncio.Event, workers: list[asyncio.Task[None]]) -> None:
    """Wait for all workers, or until `enough` is set; then cancel those that still run."""
    stop = asyncio.create_task(enough.wait())
    try:
        left = set(workers)
        while left and not stop.done():
            done, _ = await asyncio.wait({*left, stop}, return_when=asyncio.FIRST_COMPLETED)
            for worker in done & left:
                worker.result()  # raises errors that no strategy handles
            left -= done
    finally:
        stop.cancel()
        for worker in workers:
            worker.cancel()
        await asyncio.gather(stop, *workers, return_exceptions=True)
