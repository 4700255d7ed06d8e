"""The number of tried cases: some in every test run, all if LOREBIND_TEST_DENSE is set."""

from __future__ import annotations

import os

DENSE = bool(os.environ.get("LOREBIND_TEST_DENSE"))
"""Set by `make dense` and `make torture`."""


def examples(most: int) -> int:
    """Return the number of examples for a property.

    Args:
        most: the number in a dense run. Other runs try a fifth, and each run tries others.
    """
    return most if DENSE else max(most // 5, min(most, 5))
