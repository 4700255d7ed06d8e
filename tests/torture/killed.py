"""An ingest that kills itself, for the processes of `at_work`."""

from __future__ import annotations

import sys

import langchain_postgres  # noqa: F401 - imported once, not in every process

from lorebind import Project
from tests.fatal_step import Steps


def ingest() -> None:
    """Ingest and be killed at a step; 0 means never. Arguments: `lorebind VERB STEP`.

    VERB is `reindex`, or a strategy of `ingest`. The number of steps is printed.
    """
    _, verb, at = sys.argv
    steps = Steps()
    steps.kill_at(int(at))
    with Project.load() as project:
        if verb == "reindex":
            report = project.knowledge_base("docs").reindex()
        else:
            report = project.ingest("docs", strategy=verb)
    assert report.status == "completed", report
    print(steps.end())
