"""Retry transient failures of a vector database."""

from __future__ import annotations

import asyncio
import random as random_numbers
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from lorebind_config.errors import StoreError
from lorebind_knowledge.middleware.base import Wrapper
from lorebind_knowledge.resilience.retries import Retries
from lorebind_knowledge.stores.wrapper import StoreWrapper

if TYPE_CHECKING:
    from lorebind_config.declarations.embedders import RetryConfig
    from lorebind_knowledge.resilience.failures import Failure
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
        self.retries = Retries(
            limits=retry, on=StoreError, final_error=_final, sleep=sleep, random=random
        )

    def store(self, inner: VectorStore) -> VectorStore:
        return _Retried(inner, self.retries)


class _Retried(StoreWrapper):
    def __init__(self, inner: VectorStore, retries: Retries[StoreError]) -> None:
        super().__init__(inner)
        self._retries = retries

    async def around(self, asked: StoreCall, ask: Callable[[], Awaitable[R]]) -> R:
        return await (ask() if asked.name == "close" else self._retries.call(ask))


def _final(error: StoreError, _: Failure, attempts: int) -> StoreError:
    return error if attempts == 1 else StoreError(f"{error}; gave up after {attempts} attempts")
