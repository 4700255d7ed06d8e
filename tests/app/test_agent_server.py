"""`examples/agent-server`: the graph for LangGraph's agent server, without the server itself."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command

EXAMPLE = Path(__file__).parents[2] / "examples" / "agent-server"


async def test_the_graph_that_the_file_names(tmp_path: Path) -> None:
    """It waits for a person, and the approval ends it with the answer."""
    folder = tmp_path / "example"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".*"))
    graphs = json.loads((folder / "langgraph.json").read_text())["graphs"]
    file, name = graphs["answer"].split(":")
    spec: Any = importlib.util.spec_from_file_location("agent_server_graph", folder / file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    graph = getattr(module, name)
    assert isinstance(graph, CompiledStateGraph)
    graph.checkpointer = InMemorySaver()  # the server sets its own
    config: Any = {"configurable": {"thread_id": "t"}}
    question = {"input": {"question": "When can I return an item?"}}
    asked = await graph.ainvoke(question, config)
    assert "within 30 days" in asked["__interrupt__"][0].value["waiting"][0]["prompt"]
    done = await graph.ainvoke(Command(resume={"approve": {"ok": True}}), config)
    assert done["output"]["approved"] is True
    module.project.close()
