"""Two agents read the same index with different limits: `python agents.py QUESTION`."""

import sys

from lorebind import Project

with Project.load("agents.yaml") as project:
    project.ingest("docs")
    for agent in ("triage", "writer"):
        for number, passage in enumerate(project.retriever(agent=agent).invoke(sys.argv[1]), 1):
            print(f"{agent} [{number}] {passage.metadata['uri']}")
