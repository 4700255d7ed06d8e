"""An embedder that retries transient failures and respects the provider's limits."""

from __future__ import annotations

import asyncio
import functools
import random as random_numbers
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from lorebind_config.declarations.embedders import RetryConfig
from lorebind_config.errors import EmbedderError
from lorebind_knowledge.embedders import base
from lorebind_knowledge.embedders.sparse import base as sparse
from lorebind_knowledge.embedders.wrapper import EmbedderWrapper, is_sparse
from lorebind_knowledge.resilience.failures import classify
from lorebind_knowledge.resilience.limits import FairSemaphore, Pace
from lorebind_knowledge.resilience.retries import Retries

if TYPE_CHECKING:
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.embedders.sparse.base import SparseEmbedder
    from lorebind_knowledge.resilience.failures import Failure

R = TypeVar("R")


class _TooLargeError(EmbedderError):
    """A call was refused because of its size."""


class RetryingEmbedder(EmbedderWrapper):
    """Wraps an embedder that calls a provider.

    - Transient failures (limits, overload, timeouts, lost connections) are retried after the wait
      that the provider asks for, or an exponential one with jitter. Other failures are raised
      immediately.
    - A batch that is refused because of its size is sent in halves, and `batch_size` is lowered.
    - Concurrent calls and calls per minute are limited across all tasks, threads and event loops.
      While the provider asks to wait, no call begins.
      A call that waits for its retry keeps its slot, so that other calls do not add to an overload.
      Questions have slots of their own, because a batch of documents may take minutes.

    May be cancelled at any time.
    """

    batch_size: int = base.Embedder.batch_size
    max_concurrent: int = base.Embedder.max_concurrent

    def __init__(
        self,
        inner: Embedder | SparseEmbedder,
        *,
        retry: RetryConfig | None = None,
        max_concurrent: int = 4,
        requests_per_minute: int | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random_numbers.random,
    ) -> None:
        """
        Args:
            inner: the embedder to call.
            retry: attempts and waits; the defaults of the YAML when omitted.
            max_concurrent: the maximum number of concurrent calls for documents, and for questions.
            requests_per_minute: the maximum number of calls per minute, retries included; None
                means no limit.
            sleep, clock, random: the time in seconds, and random numbers in [0, 1).
        """
        super().__init__(inner)
        self._checked: Any = sparse if is_sparse(inner) else base
        self.batch_size = inner.batch_size
        self._retries = Retries(
            limits=retry or RetryConfig(),
            on=EmbedderError,
            final_error=self._final,
            sleep=sleep,
            random=random,
        )
        self.max_concurrent = max_concurrent
        # Questions have slots of their own, so that they do not wait for an ingest.
        self._document_slots = FairSemaphore(max_concurrent)
        self._question_slots = FairSemaphore(max_concurrent)
        self.pace = Pace(requests_per_minute, sleep=sleep, clock=clock)
        """When calls may begin."""

    async def embed_documents(self, texts: Sequence[str]) -> Any:
        import numpy as np

        parts: list[Any] = []
        done, size = 0, self.batch_size
        while done < len(texts):
            part = texts[done : done + self.batch_size]
            ask = functools.partial(self._checked.embed_documents, self.inner, part)
            try:
                parts.append(await self._tried(ask, self._document_slots))
            except _TooLargeError:
                if len(part) == 1:
                    self.batch_size = size  # one text was too long; the batches had the right size
                    raise
                # For later calls as well: the provider would refuse each batch of that size again.
                self.batch_size = min(self.batch_size, (len(part) + 1) // 2)
            else:
                done += len(part)
        if not parts:
            return await self._checked.embed_documents(self.inner, texts)
        if self._checked is sparse:
            return [vector for part in parts for vector in part]
        return np.concatenate(parts)

    async def embed_query(self, text: str) -> Any:
        ask = functools.partial(self._checked.embed_query, self.inner, text)
        return await self._tried(ask, self._question_slots)

    async def _tried(self, ask: Callable[[], Awaitable[R]], slots: FairSemaphore) -> R:
        async def attempt() -> R:
            await self.pace.turn()
            try:
                return await ask()
            except EmbedderError as error:
                if (seconds := classify(error).wait) is not None:
                    longest = self._retries.limits.max_backoff_ms / 1000
                    # Where it asks for more, the retries give up, so others need not wait for
                    # longer.
                    await self.pace.hold_back(min(seconds, longest))
                raise

        async with slots:
            return await self._retries.call(attempt)

    def _final(self, error: EmbedderError, failure: Failure, tries: int) -> EmbedderError:
        """Return the error with the number of attempts and a suggested fix."""
        parts = [str(error)]
        if tries > 1:
            parts.append(f"gave up after {tries} attempts")
        longest = self._retries.limits.max_backoff_ms / 1000
        if failure.wait is not None and failure.wait > longest:
            parts.append(
                f"the provider asks to wait {failure.wait:g} s, "
                f"and retry.max_backoff_ms allows {longest:g} s"
            )
        if failure.advice:
            parts.append(failure.advice)
        kind = _TooLargeError if failure.kind == "smaller" else EmbedderError
        return kind("; ".join(parts))
