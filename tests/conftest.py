"""Fixtures and options for all tests."""

from __future__ import annotations

import gc
import logging
import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from .density import examples
from .in_memory import folder_in_memory
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

SEEN = re.compile(
    "CI|HOME|LANG|PATH|TMPDIR|TZ|UPDATE_DOCS|"
    "(COV|HYPOTHESIS|LC|LD|LOREBIND_TEST|OPENBLAS|PYTEST|PYTHON)_?.*"
)
"""The variables that tests see: those that find programs and folders, say where in the world we
are and how the processor computes rightly, or are meant for tests. Others would colour and fold
what is printed, or hold real keys."""

# How long an example takes is the machine's affair.
settings.register_profile(
    "ours",
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ours")


def pytest_configure() -> None:
    """Be the same in every shell, and in the background too, where Ctrl-C is ignored."""
    for name in [name for name in os.environ if not SEEN.fullmatch(name)]:
        del os.environ[name]
    # Commands that tests start would compile our modules each time, and each worker all tests.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # Every HTTP client reads the certificates that it trusts, which takes longer than most tests.
    # None of them leaves this machine: a folder without any is enough.
    os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)
    if "TMPDIR" not in os.environ and (folder := folder_in_memory()) is not None:
        os.environ["TMPDIR"] = str(folder)
        tempfile.tempdir = None  # it may have been asked for before
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()  # while tests are collected, which leaves no garbage but looks through everything


def pytest_collection_finish() -> None:
    """Whatever is there now stays until the end."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin where single tests take long, so that all workers have work until the end."""
    items.sort(key=lambda item: "torture" not in item.path.parts)


@pytest.fixture(autouse=True)
def logger_as_before() -> Iterator[None]:
    """A project with `format:` of the extension logging has its effect on the whole process."""
    logger = logging.getLogger("lorebind")
    handlers, level = list(logger.handlers), logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


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
