"""Fixtures of the app's tests."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from lorebind import Project, trust
from tests.bindings.helpers import write

from .helpers import DOCUMENTS, EXTENSION, FILES, HOOKS, PROJECT, Cli


@pytest.fixture
def empty_cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Cli:
    """Return the command line in an empty folder."""
    return Cli(tmp_path, monkeypatch, capsys)


@pytest.fixture
def cli(empty_cli: Cli) -> Cli:
    """Return the command line in the folder of a project that is not ingested yet."""
    empty_cli.write(FILES)
    return empty_cli


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set up a user who has trusted nothing yet."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv(trust.HOME, str(folder))
    return folder


@pytest.fixture
def others_cli(empty_cli: Cli) -> Cli:
    """Return the command line in a project of others, which names its own class."""
    empty_cli.write(DOCUMENTS | {"lorebind.yaml": PROJECT + EXTENSION, "hooks.py": HOOKS})
    return empty_cli


@pytest.fixture(scope="session")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data folder of that project with everything ingested, to copy."""
    root = write(tmp_path_factory.mktemp("ingested"), FILES)
    with Project.load(root) as project:
        project.ingest("docs")
        project.ingest("rules")
    return root / ".lorebind"


@pytest.fixture
def ready_cli(cli: Cli, ingested: Path) -> Cli:
    """Return the command line in the folder of a project with everything ingested."""
    shutil.copytree(ingested, cli.root / ".lorebind")
    return cli


@pytest.fixture(params=["sqlite", "pgvector"])
def vector_db(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the declaration of a vector database, by default of each that keeps its data."""
    if request.param == "qdrant":
        return {"type": "qdrant", "config": {"path": "qdrant"}}
    if request.param != "pgvector":
        return {"type": request.param}
    request.getfixturevalue("monkeypatch").setenv("SHOP_DSN", request.getfixturevalue("dsn"))
    return {"type": "pgvector", "config": {"dsn": "{{ .env.SHOP_DSN }}"}}
