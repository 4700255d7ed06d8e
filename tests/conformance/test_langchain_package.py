"""`integrations/langchain-lorebind`: its classes pass LangChain's own suites."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import BaseTool
from langchain_tests.integration_tests import (
    RetrieversIntegrationTests,
    ToolsIntegrationTests,
    VectorStoreIntegrationTests,
)
from langchain_tests.unit_tests import ToolsUnitTests

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "integrations" / "langchain-lorebind"
sys.path.append(str(PACKAGE))
import langchain_lorebind as package  # noqa: E402  # as if it were installed

TEXTS = ["We open at nine.", "We close at five.", "Parking is free.", "Dogs are welcome."]
DOCUMENTS = [{"id": f"d{number}", "text": text} for number, text in enumerate(TEXTS)]
HOURS = {"id": "hours", "sources": [{"type": "inline", "documents": DOCUMENTS}]}
EMBEDDERS = [{"id": "words", "provider": "hashing"}]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[package.Project]:
    root = tmp_path_factory.mktemp("hours")
    declared = {"knowledge_bases": [HOURS], "embedders": EMBEDDERS}
    built = package.Project.build(declared, root=root)
    with built as project:
        project.ingest("hours")
        yield project


class TestRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _prepared(self, project: package.Project) -> None:
        self.tested = project.retriever("hours")

    @property
    def retriever_constructor(self) -> type[package.LorebindRetriever]:
        return package.LorebindRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        retriever = self.tested
        return {"service": retriever.service, "bindings": retriever.bindings}

    @property
    def retriever_query_example(self) -> str:
        return "open close free welcome"


class TestVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path: Path) -> Iterator[package.LorebindVectorStore]:
        built = package.Project.build(embedder=self.get_embeddings(), root=tmp_path)
        with built as project:
            store = project.collection("notes")
            assert isinstance(store, package.LorebindVectorStore)
            yield store


CALLS = {
    "search": {"query": "When do you open?"},
    "list_documents": {"after": "inline:d0"},
    "find": {"pattern": "nine"},
    "fetch": {"uri": "inline:d0"},
}


class EachTool:
    """Each tool that an agent reads with."""

    @pytest.fixture(autouse=True)
    def _prepared(self, project: package.Project, name: str) -> None:
        self.tested = {tool.name: tool for tool in project.tools("hours")}[name]

    @property
    def tool_constructor(self) -> BaseTool:
        return self.tested

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return CALLS[self.tested.name]


@pytest.mark.parametrize("name", list(CALLS))
class TestShapes(EachTool, ToolsUnitTests):
    pass


@pytest.mark.parametrize("name", list(CALLS))
class TestCalls(EachTool, ToolsIntegrationTests):
    pass


def test_the_package(
    project: package.Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the version of Lorebind and the middleware, and its README prints what it says."""
    ours, its = (
        tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        for folder in (ROOT, PACKAGE)
    )
    assert its["version"] == ours["version"]
    middleware = project.middleware("hours")
    assert isinstance(middleware, package.KnowledgeMiddleware)
    assert isinstance(middleware, AgentMiddleware)
    assert package.__all__ == sorted(package.__all__)
    blocks = re.findall(r"```(\w+)\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)
    ((_, code),) = [block for block in blocks if block[0] == "python"]
    printed = StringIO()
    monkeypatch.chdir(tmp_path)  # where the example keeps its index
    with redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue() == blocks[-1][1]
