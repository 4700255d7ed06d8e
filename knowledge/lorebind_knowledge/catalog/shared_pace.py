"""The pace of an embedder that all processes with the same catalog keep together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lorebind_config.errors import LorebindError
from lorebind_config.namespace import digest
from lorebind_knowledge.catalog.call_rates import CallRates
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.resilience.limits import Pace

if TYPE_CHECKING:
    from collections.abc import Callable

    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.embedders.base import Fingerprint

_LOOK_AGAIN_SECONDS = 1.0
"""Seconds until an embedder without a limit looks again whether its provider asks to wait."""
_SILENT_SECONDS = 5.0
"""Seconds until a catalog that failed is used again, so that an outage delays few calls."""


class SharedPace(Pace):
    """The pace of an embedder in all processes that have the same catalog.

    While the catalog does not exist or does not answer, it is the pace of this process alone.
    """

    def __init__(
        self, alone: Pace, fingerprint: Callable[[], Fingerprint], catalog: Callable[[], Catalog]
    ) -> None:
        """
        Args:
            alone: the pace of this process.
            fingerprint: returns that of the embedder.
            catalog: returns the catalog; called at the first use.
        """
        super().__init__(alone.per_minute, sleep=alone.sleep, clock=alone.clock)
        self._fingerprint, self._catalog = fingerprint, catalog
        self._look_at = self._ask_at = float("-inf")
        self._can_be_stored = False

    async def turn(self) -> None:
        await super().turn()
        wait = await self._ask(self._take)
        while wait > 0:
            try:
                await self.sleep(wait)
            except asyncio.CancelledError:
                if self.per_second is not None:
                    await self._ask(self._give_back)
                raise
            wait = await self._ask(CallRates.held_back)  # it may have grown in the meantime

    async def hold_back(self, seconds: float) -> None:
        await super().hold_back(seconds)
        await self._ask(lambda rates, key: rates.hold_back(key, seconds))

    def _take(self, rates: CallRates, key: str) -> float:
        if self.per_second is not None:
            return rates.take(key, self.per_second, self.burst)
        if self.clock() < self._look_at:
            return 0.0
        self._look_at = self.clock() + _LOOK_AGAIN_SECONDS
        return rates.held_back(key)

    def _give_back(self, rates: CallRates, key: str) -> None:
        assert self.per_second is not None
        rates.give_back(key, self.per_second)

    async def _ask(self, ask: Callable[[CallRates, str], float | None]) -> float:
        """Return what a function returns of the shared turns, or else 0."""
        if self.clock() < self._ask_at:
            return 0.0
        try:
            catalog = self._catalog()
            if catalog.call_rates is None:
                return 0.0
            # These threads have short transactions only, so no call waits for a search or an
            # ingest.
            with catalog.threads.lane("read"):
                return await call(self._result_of, ask, catalog.call_rates) or 0.0
        except LorebindError:  # what uses the catalog itself reports it
            self._ask_at = self.clock() + _SILENT_SECONDS
            return 0.0

    def _result_of(
        self, ask: Callable[[CallRates, str], float | None], rates: CallRates
    ) -> float | None:
        if not self._can_be_stored and not rates.can_be_stored():
            return None
        self._can_be_stored = True
        fingerprint = self._fingerprint()
        return ask(rates, digest(fingerprint.key, fingerprint.address))
