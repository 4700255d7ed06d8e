"""A value outside of the process that all requests read together, and not too often."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Generic, TypeVar

from lorebind.server.problems import RETRY_SECONDS, ProblemError
from lorebind_config.errors import LorebindError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lorebind.server.failure_log import OutageLog

T = TypeVar("T")

_APART_SECONDS = 0.1
"""The shortest time between two reads."""
_LONGEST_SECONDS = 10.0
"""Seconds after which a read counts as failed, as a database may hang."""


class SharedRead(Generic[T]):
    """The value of the last read. One read serves all concurrent callers."""

    def __init__(self, what: str, read: Callable[[], Awaitable[T]], outages: OutageLog) -> None:
        """
        Args:
            what: the value, in the refusal of a request.
            read: reads it; a `LorebindError` is an outage.
            outages: logs that reads fail.
        """
        self._what, self._read_value, self._outages = what, read, outages
        self._read_at = self._tried_at = -math.inf
        self._reading: asyncio.Task[bool] | None = None
        self.value: T | None = None
        self.began_at = -math.inf
        """When the last read was requested, on the monotonic clock."""

    async def since(self, moment: float) -> T:
        """Return the value from a read that has begun at this moment or later.

        Raises:
            ProblemError: it cannot be read.
        """
        while self._read_at < moment or self.value is None:
            # No caller cancels it.
            if self._reading is None or self._reading.done():
                self.began_at = time.monotonic()
                self._reading = asyncio.create_task(self._read())
            reading, left = self._reading, self.began_at + _LONGEST_SECONDS - time.monotonic()
            await asyncio.wait({reading}, timeout=max(left, 0))
            if not reading.done():
                self._outages.failed(f"no answer within {_LONGEST_SECONDS:g} s")
            if not (reading.done() and reading.result()):
                raise self.problem()
        return self.value

    def problem(self) -> ProblemError:
        """Return the refusal of a request that needs the value."""
        # The error names the location of the value, which callers must not see.
        detail = f"the server cannot read {self._what} now; try again later"
        return ProblemError(
            "store_unavailable", detail, headers={"Retry-After": str(RETRY_SECONDS)}
        )

    @property
    def is_reading(self) -> bool:
        return self._reading is not None and not self._reading.done()

    @property
    def age(self) -> float:
        """The seconds since the read of the value has begun."""
        return time.monotonic() - self._read_at

    async def _read(self) -> bool:
        """Read the value, and return whether that was possible; if not, it is logged."""
        await asyncio.sleep(self._tried_at + _APART_SECONDS - time.monotonic())
        # Taken before the read, which may miss a change that is made meanwhile.
        self._tried_at = now = time.monotonic()
        try:
            self.value = await self._read_value()
        except LorebindError as error:
            self._outages.failed(error)
            return False
        self._outages.worked()
        self._read_at = now
        return True
