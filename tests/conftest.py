"""Fixtures and options for all tests."""

from __future__ import annotations

import gc
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

import lorebind  # noqa: F401 - registers the built-in kinds
from lorebind_knowledge.extensions import logging as log_records
from lorebind_knowledge.loaders import readers
from lorebind_knowledge.plumbing.lanes import usable_processors

from .app.forked_python import OF_COMMANDS, ForkedPython
from .app.loaded_models import load_once, run_again
from .density import examples
from .forked_readers import ForkedReaders
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
    from .knowledge.hub_server import HubServer

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
"""The environment variables that tests see: those that locate programs and folders, set the
locale, make the processor compute correctly, or are meant for tests. Others would color and wrap
the output, or contain real keys."""

# The time of an example depends on the machine.
settings.register_profile(
    "ours",
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ours")


def pytest_configure() -> None:
    """Make tests independent of the shell, also in the background, where Ctrl-C is ignored."""
    for name in [name for name in os.environ if not SEEN.fullmatch(name)]:
        del os.environ[name]
    # Each command started by tests would compile our modules again, and each worker all tests.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # Every HTTP client loads its trusted certificates, which takes longer than most tests. No
    # client leaves this machine, so an empty folder is enough.
    os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)
    if "TMPDIR" not in os.environ and (folder := folder_in_memory()) is not None:
        os.environ["TMPDIR"] = str(folder)
        tempfile.tempdir = None  # it may have been read before
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()  # collecting tests leaves no garbage, but the collector would scan everything


def pytest_xdist_auto_num_workers() -> int:
    """Return the number of processors and one more, because tests wait; each needs memory."""
    return min(usable_processors(), 7) + 1


def pytest_collection_finish() -> None:
    """Exclude all objects that exist now from garbage collection; they live until the end."""
    gc.freeze()
    gc.set_threshold(20_000)  # scanning what tests import would take 3 % of all processor time
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the folder of slow tests, so that all workers are busy until the end."""
    items.sort(key=lambda item: "torture" not in item.path.parts)


@pytest.fixture(autouse=True)
def logger_as_before() -> Iterator[None]:
    """Restore the logger: the extension logging with `format:` changes it for the whole process."""
    logger = logging.getLogger("lorebind")
    handlers, level = list(logger.handlers), logger.level
    yield
    logger.handlers[:] = handlers
    if logger.level != level:  # setting it clears the caches of all loggers
        logger.setLevel(level)
    log_records._calls.clear()  # of projects that the test did not close


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the trusted projects of tests apart from those of the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOREBIND_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="session", autouse=True)
def models_loaded_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        load_once(patch.setattr)
        yield


@pytest.fixture
def models_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    run_again(monkeypatch.setattr)


@pytest.fixture(scope="session", autouse=True)
def readers_forked() -> Iterator[None]:
    """Fork processes that read documents; `started_readers` starts them as the product does."""
    if sys.platform != "linux":
        yield
        return
    forking = ForkedReaders()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "subprocess", forking)
        yield
    forking.close()


@pytest.fixture
def started_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "subprocess", subprocess)


@pytest.fixture(scope="session")
def forked() -> Iterator[ForkedPython]:
    """Forks programs, for tests that need processes but are not about how those start."""
    python = ForkedPython("-W", "error", libraries=OF_COMMANDS)
    yield python
    python.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--torture", action="store_true", help="try every case in tests/torture, not only a few"
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """Print the number of tried cases."""
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


@pytest.fixture
def without_ocr(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recognize no page without text, as if the extra `ocr` was not installed.

    Scans whose source declares `ocr` fail. Images are still read, as pages without text.
    """
    from lorebind_knowledge.ingest import scans

    monkeypatch.setattr(scans, "can_recognize", lambda: False)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """Run a hub of models on this machine, from which Lorebind downloads them."""
    from .knowledge.hub_server import hub_server  # with onnx, which few tests need

    with hub_server() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server
