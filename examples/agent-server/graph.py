"""The graph that `langgraph.json` names."""

from pathlib import Path

from lorebind import Project

project = Project.load(Path(__file__).parent)
answer = project.graph("answer")
