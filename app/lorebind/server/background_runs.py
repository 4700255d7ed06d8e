"""Runs in the background: begin, watch, cancel, interrupt and take over."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from lorebind.server.failure_log import OutageLog
from lorebind.server.problems import RETRY_SECONDS, ProblemError, problem_of
from lorebind.server.state.runs import BEAT_SECONDS, UnderWayError
from lorebind_config.errors import LorebindError
from lorebind_config.namespace import Namespace, tenant
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lorebind.server.state.runs import RequestedRun, RequestedRuns

log = logging.getLogger("lorebind.server")

_BEGIN_SECONDS = 5.0
"""Seconds that a request waits until its run begins or is refused."""
_ORPHAN_SECONDS = 60.0
"""Seconds in which a server with the same declarations may take over an interrupted run."""
_LOOK_SECONDS = 2.0
"""Seconds after which waiting callers look whether a run was ended in the meantime."""
_TAKEN_SECONDS = 0.1
"""Seconds between two looks whether runs are left to take over."""
_RUNS_REMEMBERED = 16
"""Number of ended runs whose events are kept."""

_ORPHANED = ProblemError(
    "declarations_changed",
    "the server that worked on the run has ended, and the project's declarations have changed "
    "since; request it again, or resume the thread of a workflow",
)


class Events(Protocol):
    """The events of a run."""

    @property
    def has_begun(self) -> bool:
        """Whether there was an event."""
        ...

    async def first(self) -> None:
        """Wait for the first event, or for the end."""
        ...

    async def end(self) -> None:
        """Mark the end of the events."""
        ...


E = TypeVar("E", bound=Events)


class BackgroundRuns(ABC, Generic[E]):
    """The requested runs of one kind, which outlive their requests and their server.

    A subclass says how a run is carried out.
    """

    name: ClassVar[str]
    """The name of these runs in logs."""
    refusals: ClassVar[tuple[type[LorebindError], ...]]
    """The errors of a run that could not begin: its request is refused, and nothing is stored."""
    cancel_seconds: ClassVar[float]
    """Seconds that `cancel` waits for third-party code, which may hang."""

    def __init__(
        self, runs: RequestedRuns, log_failure: Callable[[str, BaseException], None]
    ) -> None:
        """
        Args:
            runs: the stored runs.
            log_failure: logs unexpected errors.
        """
        self.runs = runs
        self._log_failure = log_failure
        self._under_way: dict[str, UnderWay[E]] = {}
        self._ended: dict[str, E] = {}
        """The events of the latest runs here, for clients that ask after a short run has ended."""
        self.most: int | None = None
        """Number of runs that this process works on at the same time. None means all that are
        requested here or have lost their process; 0 leaves all to others."""
        self.most_requested: int | None = None
        """Number of runs here at which further requests are refused. None for no limit."""
        self._watching: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._taking = asyncio.Lock()
        """Held from taking runs over until they have started here."""
        self._is_stopping = False
        name = self.name
        self._outages = OutageLog(f"{name} cannot be read", f"{name} can be read again")

    @abstractmethod
    async def carry_out(self, under_way: UnderWay[E]) -> tuple[str, Mapping[str, Any]]:
        """Execute a run, for the tenant of its namespace, and return its status and outcome."""

    @abstractmethod
    def new_events(self, run: RequestedRun) -> E:
        """Return an empty store for the events of a run that begins here."""

    async def tidy(self) -> None:
        """Do what is to be done every few seconds, such as to delete what is no longer needed."""

    async def request(
        self,
        namespace: Namespace,
        request: Mapping[str, Any],
        key: str | None = None,
        digest: str = "",
        *,
        alone: bool = True,
        waits: bool = False,
    ) -> RequestedRun:
        """Request a run as `RequestedRuns.request` does; when it returns, a new run has begun.

        With `waits`, a run waits for others in its way, instead of being refused.

        Raises:
            KeyTakenError, UnderWayError: another run has the key or the namespace.
            ProblemError: too many runs are under way here. Nothing is stored.
            LorebindError: one of `refusals`. Nothing is stored.
        """
        while True:
            if key is None and self._is_full:
                raise self._full()
            store = partial(
                self.runs.request,
                namespace,
                request,
                key,
                digest,
                alone=alone,
                for_workers=self.are_for_workers,
            )
            try:
                run, is_new = await call(store)
            except UnderWayError:
                if not await self._end_orphans(0):
                    raise
                continue
            if is_new and not self.are_for_workers:
                # Looked at again: other runs may have begun while this one was being stored.
                if self._is_full:
                    await call(self.runs.forget, run)
                    raise self._full()
                under_way: UnderWay[E] | None = self._start(run, waits=waits)
            else:
                under_way = self._under_way.get(run.run_id)
            if under_way is not None:
                await under_way.begun(_BEGIN_SECONDS)
                if under_way.error is not None and self._is_refused(under_way):
                    raise under_way.error
                under_way.is_answered = True
                return run
            if await call(partial(self.runs.find, namespace, run.run_id)) is not None:
                return run
            # The first request with the key was refused in the meantime; this one tries again.

    @property
    def are_for_workers(self) -> bool:
        """Whether other processes work on all runs that are requested here."""
        return self.most == 0

    async def ended(self, run: RequestedRun, seconds: float) -> RequestedRun:
        """Return the current state of a run after it ends, or after this time."""
        deadline = time.monotonic() + seconds
        is_fresh = False  # it may have ended since it was read
        while run.finished_at is None and (left := deadline - time.monotonic()) > 0:
            here = self._under_way.get(run.run_id)
            if here is not None:
                await asyncio.wait({here.task}, timeout=min(_LOOK_SECONDS, left))
            elif is_fresh:
                # Another server works on it, and tells its end only by the stored run.
                await asyncio.sleep(min(0.5, left))
            is_fresh = True
            current = await call(partial(self.runs.find, run.namespace, run.run_id))
            run = current or run
            if self._is_stopping:
                break
        return run

    async def cancel(self, run: RequestedRun) -> None:
        """Cancel a run, on whichever server it runs."""
        await call(self.runs.cancel, run)
        here = self._under_way.get(run.run_id)
        if here is not None:
            here.cancel()
            await asyncio.wait({here.task}, timeout=self.cancel_seconds)

    def events(self, run: RequestedRun) -> E | None:
        """Return the events of a run, if it runs here or was one of the last that did."""
        here = self._under_way.get(run.run_id)
        return here.events if here else self._ended.get(run.run_id)

    def wake(self) -> None:
        """Look at once which runs are to be taken over, or were cancelled."""
        self._woken.set()

    async def idle(self) -> None:
        """Wait until it works on no run, and none is to be taken over."""
        while True:
            async with self._taking:
                are_left: bool = await call(self.runs.are_there_unattended)
                if not (are_left or self._under_way):
                    return
            if self._under_way:
                await asyncio.wait({under_way.task for under_way in self._under_way.values()})
            self.wake()
            await asyncio.sleep(_TAKEN_SECONDS)

    def watch(self) -> None:
        """From now on, resume interrupted runs, and record which runs this server works on."""
        self._watching = asyncio.create_task(self._watch())

    async def stop(self, seconds: float) -> None:
        """Interrupt running runs, so that another server or the next start resumes them.

        Args:
            seconds: how long to wait for third-party code that hangs, such as an embedder.
        """
        self._is_stopping = True
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})
        stopping = list(self._under_way.values())
        for under_way in stopping:
            under_way.interrupted = True
            under_way.cancel()
        if stopping:
            await asyncio.wait({under_way.task for under_way in stopping}, timeout=seconds)
        # Their code hangs. They are released, so that others need not wait until they look stale.
        for under_way in self._under_way.values():
            with suppress(LorebindError):
                await call(self.runs.interrupt, under_way.run)
            await under_way.events.end()
        with suppress(LorebindError):
            await call(self.runs.interrupt_all)  # also what was taken over at the very end

    async def _watch(self) -> None:
        while True:
            try:
                here = dict(self._under_way)
                continuing = await call(self.runs.beat, list(here))
                for run_id in here.keys() - continuing:
                    here[run_id].cancel()  # cancelled or taken over by another server
                await self._take_over()
                await self._end_orphans(_ORPHAN_SECONDS)
                await self.tidy()
                self._outages.worked()
            except LorebindError as error:  # runs report their own errors
                self._outages.failed(error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), BEAT_SECONDS)
            self._woken.clear()

    async def _take_over(self) -> None:
        async with self._taking:
            free = None if self.most is None else self.most - len(self._under_way)
            for run in await call(self.runs.take_over, free):
                if run.cancelled:
                    await call(self.runs.finish, run, "cancelled", {})
                else:
                    log.info("resuming run %s", run.run_id)
                    self._start(run, waits=True)

    async def _end_orphans(self, seconds: float) -> bool:
        """End the runs that no server has worked on for this long, and that this one may not take
        over, and return whether there were any."""
        end = partial(self.runs.end_orphans, seconds, "failed", {"error": _ORPHANED.document()})
        orphans = await call(end)
        for run in orphans:
            log.warning("run %s failed: %s", run.run_id, _ORPHANED.detail)
        return bool(orphans)

    def _start(self, run: RequestedRun, *, waits: bool = False) -> UnderWay[E]:
        under_way = UnderWay(run, self.new_events(run), waits=waits)
        self._under_way[run.run_id] = under_way
        under_way.task = asyncio.create_task(self._to_the_end(under_way))
        return under_way

    async def _to_the_end(self, under_way: UnderWay[E]) -> None:
        """Carry out one run and store its end; raises only if it is cancelled."""
        run = under_way.run
        status: str = "failed"
        outcome: Mapping[str, Any] = {}
        try:
            with tenant(run.namespace.tenant):
                status, outcome = await self.carry_out(under_way)
        except asyncio.CancelledError:
            status = "interrupted" if under_way.interrupted else "cancelled"
        except LorebindError as error:
            under_way.error = error
            outcome = {"error": problem_of(error).document()}
        except Exception as error:  # a bug in Lorebind or in the project's code
            self._log_failure(f"run {run.run_id} failed", error)
            detail = f"{type(error).__name__}; the server's log has details"
            outcome = {"error": ProblemError("internal_error", detail).document()}
        finally:
            # In an outage the run shows no sign of life, and is taken over afterwards.
            with suppress(LorebindError):
                if status == "interrupted":
                    await call(self.runs.interrupt, run)
                elif self._is_refused(under_way):
                    await call(self.runs.forget, run)
                else:
                    await call(self.runs.finish, run, status, {**under_way.outcome, **outcome})
            await under_way.events.end()
            self._ended[run.run_id] = under_way.events
            if len(self._ended) > _RUNS_REMEMBERED:
                del self._ended[next(iter(self._ended))]
            self._under_way.pop(run.run_id, None)
            if self.most:
                self.wake()  # it has time for another one

    @property
    def _is_full(self) -> bool:
        limit = None if self.are_for_workers else self.most_requested
        return limit is not None and len(self._under_way) >= limit

    def _full(self) -> ProblemError:
        detail = (
            f"this server already works on {self.most_requested} runs in the background; try again "
            "later, or raise `server: { background_runs: … }`"
        )
        return ProblemError("rate_limited", detail, headers={"Retry-After": str(RETRY_SECONDS)})

    def _is_refused(self, under_way: UnderWay[E]) -> bool:
        """Whether the run could not begin, so that its request is refused and nothing is stored."""
        is_known = under_way.waits or under_way.is_answered or under_way.events.has_begun
        return isinstance(under_way.error, self.refusals) and not is_known


class UnderWay(Generic[E]):
    """A run that this process works on."""

    task: asyncio.Task[None]

    def __init__(self, run: RequestedRun, events: E, *, waits: bool) -> None:
        self.run = run
        self.waits = waits
        """Whether it waits for other runs in its way, instead of being refused."""
        self.events = events
        self.outcome: dict[str, Any] = {}
        """The part of the outcome that is stored even if the run fails."""
        self.is_answered = False
        """Whether its client has got its id."""
        self.interrupted = False
        """Whether it was cancelled because the server stops."""
        self.error: LorebindError | None = None

    def cancel(self) -> None:
        """Cancel it once: a second cancellation would interrupt the storing of its end."""
        if not self.task.cancelling():
            self.task.cancel()

    async def begun(self, seconds: float) -> None:
        """Wait until the run has begun to write, or has ended."""
        first = asyncio.ensure_future(self.events.first())
        try:
            await asyncio.wait(
                {first, self.task}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            first.cancel()
