"""The log of unexpected errors."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from lorebind import Project
from lorebind.server.failure_log import FailureLog

from .conftest import write_project


@pytest.mark.parametrize("number", [1, 100_000])
def test_no_text_of_a_caller_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    """Texts of the caller are removed however many there are, and the traceback stays."""
    sent = [f"text {place}\n" for place in range(number)]
    project = Project.load(write_project(tmp_path))
    with project, caplog.at_level(logging.ERROR, "lorebind.server"):
        try:
            raise ValueError(sent[0])
        except ValueError as error:
            error.add_note(repr(sent[-1]))
            FailureLog(project.config)("a request failed", error, sent)
    assert "text " not in caplog.text
    assert "[request]" in caplog.text
    assert "Traceback" in caplog.text
    assert __file__ in caplog.text
