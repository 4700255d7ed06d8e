"""Fixtures for tests that try many cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .at_work import Processes
from .trials import PROPERTY, Trials

KEPT = Path(__file__).parents[2] / ".torture"


@pytest.fixture
def trials(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Iterator[Trials]:
    """Return an object that tries a claim on a few cases, and with `--torture` on all of them."""
    trials = Trials(full=request.config.getoption("torture"), folder=KEPT)
    yield trials
    for line in trials.figures:
        record_property(PROPERTY, line)


@pytest.fixture(autouse=True)
def real_readers(started_readers: None) -> None:
    """Start processes that read documents as the product does, which limits what they use."""


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    started = Processes(tmp_path_factory.mktemp("printed"))
    yield started
    started.end()
