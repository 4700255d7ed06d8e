"""The fixture of the tests that try many cases."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .trials import PROPERTY, Trials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEPT = Path(__file__).parents[2] / ".torture"


@pytest.fixture
def trials(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Iterator[Trials]:
    """Tries a claim on a few cases, and on all of them with `--torture`."""
    made = Trials(full=request.config.getoption("torture"), folder=KEPT)
    yield made
    for line in made.figures:
        record_property(PROPERTY, line)
