"""The fixture for tests that try many cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .trials import PROPERTY, Trials

KEPT = Path(__file__).parents[2] / ".torture"


@pytest.fixture
def trials(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Iterator[Trials]:
    """Return an object that tries a claim on a few cases, and with `--torture` on all of them."""
    made = Trials(full=request.config.getoption("torture"), folder=KEPT)
    yield made
    for line in made.figures:
        record_property(PROPERTY, line)
