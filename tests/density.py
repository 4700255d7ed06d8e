"""How many cases are tried: some in every test run, all of them if LOREBIND_TEST_DENSE is set."""

from __future__ import annotations

import os

DENSE = bool(os.environ.get("LOREBIND_TEST_DENSE"))
"""`make dense` and `make torture` set it."""


def examples(most: int) -> int:
    """How many examples of a property are tried.

    Args:
        most: of a dense run. Others try a fifth of them: each run tries others.
    """
    return most if DENSE else max(most // 5, min(most, 5))
