"""The number of tried cases: some in every test run, all if LOREBIND_TEST_DENSE is set."""

from __future__ import annotations

import os

DENSE = bool(os.environ.get("LOREBIND_TEST_DENSE"))
"""Set by `make dense` and `make torture`."""


def examples(most: int) -> int:
    """Return the number of examples for a property: `most` in a dense run, else a fifth of it."""
    return most if DENSE else max(most // 5, min(most, 5))
