"""A small project whose passages are known, to test LangChain's view of it."""

from __future__ import annotations

from pathlib import Path

from langchain_core.tools import tool

from lorebind import Project
from tests.bindings.helpers import PARTS, write

QUESTION = "How do I rotate the keys?"

KEYS = "Rotate the keys with the rotate command every ninety days."
OLD = "Old keys are to be rotated at once when they leak."
RULES = "The access rules list who may rotate the keys."

FILES = {
    "guide/keys.md": f"{KEYS}\n",
    "guide/old.md": f"{OLD}\n",
    "rules/keys.md": f"{RULES}\n",
    "rules/snow.md": "Blankets of powder cover alpine chalets.\n",
}

PROJECT = f"""\
name: shop
{PARTS}\
knowledge_bases:
  - id: guide
    description: How keys are handled.
    sources: [{{ type: markdown_glob, path: "guide/*.md" }}]
  - id: rules
    description: Rights of each role.
    sources: [{{ type: markdown_glob, path: "rules/*.md" }}]
knowledge: [{{ id: guide }}]
agents:
  - id: clerk
    instructions: Be short.
    knowledge: [{{ id: rules, top_k: 1 }}]
workflows:
  - id: reply
    input: {{ question: {{ type: string }} }}
    tasks: [{{ id: say, prompt: "{{{{ .workflow.input.question }}}}" }}]
"""


def shop(root: Path, *, guide: str = "", files: dict[str, str] | None = None) -> Project:
    """Build and ingest the project; `guide` is more settings for its binding of `guide`."""
    yaml = PROJECT.replace("knowledge: [{ id: guide }]", f"knowledge: [{{ id: guide{guide} }}]")
    project = Project.load(write(root, FILES | {"lorebind.yaml": yaml} | (files or {})), environ={})
    project.ingest("guide")
    project.ingest("rules")
    return project


@tool
def weather(place: str) -> str:
    """Tell the weather."""
    return f"It rains in {place}."
