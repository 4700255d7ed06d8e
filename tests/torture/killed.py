"""An ingest that kills itself, for processes of `at_work`."""

from __future__ import annotations

import sys

import langchain_postgres  # noqa: F401 - imported once, not in every process

from lorebind import Project
from tests.fatal_step import Steps


def ingest() -> None:
    """`lorebind VERB STEP`: ingest, killed at a step, at none if that is 0.

    VERB is `reindex`, or a strategy of `ingest`. Printed are the steps that it took.
    """
    _, verb, at = sys.argv
    steps = Steps()
    steps.kill_at(int(at))
    with Project.load() as project:
        if verb == "reindex":
            report = project.reindex("docs")
        else:
            report = project.ingest("docs", strategy=verb)
    assert report.status == "completed", report
    print(steps.end())
