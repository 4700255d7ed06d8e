"""Bring the index up to date with the folder docs, then answer: `python ask.py QUESTION`."""

import sys

from lorebind import Project

with Project.load() as project:
    project.ingest("docs")
    for question in sys.argv[1:]:
        for number, match in enumerate(project.query("docs", question, top_k=3), 1):
            where = match.metadata
            lines = f"{where['line_start']}-{where['line_end']}"
            print(f"[{number}] {where['uri']}:{lines}\n{match.text}\n")
