"""Declared extensions are created with the project and receive its events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lorebind_config.errors import ConfigurationError, UsageError
from lorebind_config.project_code import import_of_project
from lorebind_knowledge import KnowledgeService
from lorebind_knowledge.ingest.engine import ingest

from .small_project import small_project

HOOKS = """\
from lorebind import Extension

SEEN = []


class Audit(Extension):
    def __init__(self, name, token=""):
        if token:
            raise ValueError(f"bad {token}")
        self.name = name

    def ingest_completed(self, event):
        SEEN.append((self.name, event.kb_id))


class NoExtension:
    pass
"""


def _service(root: Path, *extensions: Any, **environ: str) -> KnowledgeService:
    (root / "hooks.py").write_text(HOOKS, encoding="utf-8")
    return small_project(root, *extensions, environ=environ)


def _audit(**config: str) -> dict[str, Any]:
    return {"provider": "python", "class": "hooks:Audit", "config": config}


async def test_hooks_of_the_project_are_called_in_order(tmp_path: Path) -> None:
    """Two extensions of one class in the project folder each have their own configuration."""
    service = _service(tmp_path, _audit(name="one"), _audit(name="two"))
    await ingest(service.open("docs").corpus())
    assert import_of_project("hooks:SEEN", tmp_path) == [("one", "docs"), ("two", "docs")]
    await service.close()


def test_what_cannot_be_made_is_named(tmp_path: Path) -> None:
    """Errors name a class that is no extension, refuses its configuration, or is missing."""
    with pytest.raises(
        UsageError, match="extension: hooks:NoExtension is the class NoExtension; expected a class"
    ):
        _service(tmp_path, {"provider": "python", "class": "hooks:NoExtension"})
    with pytest.raises(UsageError, match=r"hooks:Audit cannot .*: ValueError: bad {{ \.env\.T }}"):
        _service(tmp_path, _audit(name="x", token="{{ .env.T }}"), T="abcdef")
    with pytest.raises(ConfigurationError, match="missing key 'class'"):
        _service(tmp_path, {"provider": "python"})
    with pytest.raises(ConfigurationError, match="token holds a literal value"):
        _service(tmp_path, _audit(name="x", token="abc"))
