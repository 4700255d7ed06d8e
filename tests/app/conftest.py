"""What the tests of the front door share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .helpers import FILES, Cli

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def empty_cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Cli:
    """The command line in an empty folder."""
    return Cli(tmp_path, monkeypatch, capsys)


@pytest.fixture
def cli(empty_cli: Cli) -> Cli:
    """The command line in the folder of a project that is not ingested yet."""
    empty_cli.write(FILES)
    return empty_cli


@pytest.fixture
def ready_cli(cli: Cli) -> Cli:
    """The same with everything ingested."""
    done = cli("knowledge", "ingest")
    assert done.code == 0, done
    return cli
