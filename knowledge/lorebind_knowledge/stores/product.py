"""The product of a matrix with a vector, by whichever processors have nothing else to do.

BLAS divides a product among threads that wait for each other. Where other work, other searches
among it, takes one of the processors, all of them wait for the one: eight searches at a time then
take a hundred times as long as one. Here the thread that asks takes block after block, threads
that are idle take some too, and nobody waits for one that has not begun.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from lorebind_knowledge.cosines import dots
from lorebind_knowledge.cpu_count import usable_processors

if TYPE_CHECKING:
    from concurrent.futures import Future

    from lorebind_knowledge.records import Matrix, Vector

_BLOCK = 1 << 21
"""Numbers for which it pays to wake a thread: some tenths of a millisecond."""
_MOST = 4
"""Threads; more wait for the memory rather than for a processor."""


def product(matrix: Matrix, vector: Vector) -> Vector:
    """Of each row of the matrix its product with the vector, in float32."""
    figures: Vector = np.empty(len(matrix), np.float32)
    # Each block ends with a wait for the interpreter's lock, so there are few.
    rows = max(_BLOCK // matrix.shape[1], -(-len(matrix) // (2 * _THREADS)), 1)
    starts = iter(range(0, len(matrix), rows))

    def work() -> None:
        for start in starts:
            part = slice(start, start + rows)
            dots(matrix[part], vector, out=figures[part])

    helping: list[Future[None]] = []
    more = min(-(-len(matrix) // rows), _THREADS) - 1
    with suppress(RuntimeError):  # while the interpreter ends, no thread can be asked any more
        helping.extend(_helpers().submit(work) for _ in range(more))
    work()
    for helper in helping:
        if not helper.cancel():
            helper.result()
    return figures


_THREADS = min(usable_processors(), _MOST)


@cache
def _helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(_THREADS - 1, 1), thread_name_prefix="lorebind-product")


if hasattr(os, "register_at_fork"):  # a child process has none of its parent's threads
    os.register_at_fork(after_in_child=_helpers.cache_clear)
