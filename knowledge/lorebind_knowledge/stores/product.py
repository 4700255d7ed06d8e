"""The product of a matrix with a vector, computed by idle processors only.

BLAS divides a product among threads that wait for each other. If other work, such as another
search, occupies one of the processors, all threads wait for that one: eight concurrent searches
then take a hundred times as long as one. Here the calling thread computes block after block, idle
threads compute some blocks too, and nothing waits for a thread that has not started.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from lorebind_knowledge.cosines import dots
from lorebind_knowledge.plumbing.lanes import usable_processors

if TYPE_CHECKING:
    from concurrent.futures import Future

    from lorebind_knowledge.records import Matrix, Vector

_BLOCK = 1 << 21
"""Numbers per block: a few tenths of a millisecond of work, enough to be worth waking a thread."""
_MOST = 4
"""Maximum number of threads: more would wait for memory rather than compute."""


def product(matrix: Matrix, vector: Vector) -> Vector:
    """Return the inner product of each row of the matrix with the vector, in float32."""
    figures: Vector = np.empty(len(matrix), np.float32)
    # Few blocks, because each ends with a wait for the interpreter's lock.
    rows = max(_BLOCK // matrix.shape[1], -(-len(matrix) // (2 * _THREADS)), 1)
    starts = iter(range(0, len(matrix), rows))

    def work() -> None:
        for start in starts:
            part = slice(start, start + rows)
            dots(matrix[part], vector, out=figures[part])

    helping: list[Future[None]] = []
    more = min(-(-len(matrix) // rows), _THREADS) - 1
    with suppress(RuntimeError):  # no thread can be started while the interpreter shuts down
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


if hasattr(os, "register_at_fork"):  # a child process does not have its parent's threads
    os.register_at_fork(after_in_child=_helpers.cache_clear)
