"""The whole life of a knowledge base whose vectors are in a LangChain class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.vectorstores import InMemoryVectorStore

from lorebind_config.errors import StoreError

from .journey import build, travel


class Kept(InMemoryVectorStore):
    """Keeps its documents beyond the instances of the class, as a server would."""

    state: dict[str, Any]

    def __init__(self, embedding: Any, name: str = "") -> None:
        super().__init__(embedding)
        if "state" not in type(self).__dict__:
            type(self).state = {}
        self.store = type(self).state


def test_in_memory(tmp_path: Path) -> None:
    """InMemoryVectorStore leaves no file behind."""
    path = "langchain_core.vectorstores:InMemoryVectorStore"
    with build(tmp_path, {"type": "langchain", "class": path}) as project:
        travel(project, tmp_path)
    assert not list(tmp_path.glob(".lorebind/db.*"))


def test_a_class_that_keeps_its_documents(tmp_path: Path) -> None:
    """Another process continues where this one stopped."""
    declared = {
        "type": "langchain",
        "class": f"{__name__}:Kept",
        "config": {"name": "{{ .env.NAME }}"},
        "persistent": True,
    }
    environ = {"NAME": "handbook"}
    with build(tmp_path, declared, environ=environ) as project:
        travel(project, tmp_path)
        before = project.query("docs", "server").matches
    with build(tmp_path, declared, environ=environ) as project:
        assert project.query("docs", "server").matches == before


def test_a_class_that_lost_its_documents(tmp_path: Path) -> None:
    """Lost documents are an error with a suggested fix; the next ingest restores them."""
    declared = {"type": "langchain", "class": f"{__name__}:Kept", "persistent": True}
    with build(tmp_path, declared) as project:
        travel(project, tmp_path)
        before = project.query("docs", "server").matches
    Kept.state.clear()
    with build(tmp_path, declared) as project:
        with pytest.raises(StoreError, match=r"langchain store .*Kept has lost .*ingest docs"):
            project.query("docs", "server")
        assert project.ingest("docs").status == "completed"
        assert project.query("docs", "server").matches == before
