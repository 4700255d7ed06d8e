"""Retry transient failures of a vector database."""

from __future__ import annotations

import asyncio
import random as random_numbers
import time
from typing import TYPE_CHECKING, TypeVar

from lorebind_config.errors import StoreError
from lorebind_knowledge.embedders.failures import classify
from lorebind_knowledge.embedders.pacing import backoff
from lorebind_knowledge.middleware.base import Wrapper
from lorebind_knowledge.stores.wrapper import StoreWrapper

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lorebind_config.declarations.embedders import RetryConfig
    from lorebind_knowledge.stores.base import VectorStore
    from lorebind_knowledge.stores.wrapper import StoreCall

R = TypeVar("R")


class StoreRetries(Wrapper):
    """Retries the calls that the store protocol allows to repeat: all except `close`."""

    def __init__(
        self,
        retry: RetryConfig,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = random_numbers.random,
    ) -> None:
        """
        Args:
            retry: attempts and waits.
            sleep, random: the time in seconds, and random numbers in [0, 1).
        """
        self.retry, self.sleep, self.random = retry, sleep, random

    def store(self, inner: VectorStore) -> VectorStore:
        return _Retried(inner, self)


class _Retried(StoreWrapper):
    def __init__(self, inner: VectorStore, retries: StoreRetries) -> None:
        super().__init__(inner)
        self._retries = retries

    async def around(self, asked: StoreCall, ask: Callable[[], Awaitable[R]]) -> R:
        tries = 0
        while True:
            try:
                return await ask()
            except StoreError as error:
                tries += 1
                passing = asked.name != "close" and _is_passing(error)
                if not passing or tries >= self._retries.retry.attempts:
                    if tries == 1:
                        raise
                    raise StoreError(f"{error}; gave up after {tries} attempts") from error
                wait = classify(error, time.time()).wait
            await self._retries.sleep(
                backoff(self._retries.retry, tries, wait, self._retries.random())
            )


def _is_passing(error: StoreError) -> bool:
    """Check whether the same call may succeed a moment later."""
    return classify(error, time.time()).kind == "again" or _is_of_postgres(error)


def _is_of_postgres(error: BaseException) -> bool:
    """Check for psycopg's OperationalError: lost connections, deadlocks and the like."""
    link: BaseException | None = error
    while link is not None:
        for kind in type(link).__mro__:
            if kind.__module__.startswith("psycopg") and kind.__name__ == "OperationalError":
                return True
        link = link.__cause__
    return False
