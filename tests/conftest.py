"""Fixtures and options for all tests."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from .postgres import (
    dsn,
    make_folder,
    make_store,
    new_dsn,
    own_postgres,
    postgres,
    pristine_postgres,
)
from .torture.trials import PROPERTY

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "dsn",
    "make_folder",
    "make_store",
    "new_dsn",
    "own_postgres",
    "postgres",
    "pristine_postgres",
]


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is trusted in tests is kept apart from what their user trusts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOREBIND_HOME", str(tmp_path_factory.mktemp("home")))
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--torture", action="store_true", help="try every case in tests/torture, not only a few"
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """Print how many cases were tried; a complete run leaves nothing to be resumed."""
    config = terminalreporter.config
    if not config.getoption("torture"):
        return
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "teardown":
                for name, line in report.user_properties:
                    if name == PROPERTY:
                        terminalreporter.write_line(line)
    if exitstatus == pytest.ExitCode.OK:
        shutil.rmtree(config.rootpath / ".torture", ignore_errors=True)
