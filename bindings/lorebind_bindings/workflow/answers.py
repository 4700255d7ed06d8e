"""What a thread is told while it is suspended: answers, and that a paused task may begin."""

from __future__ import annotations

from typing import Any

from lorebind_knowledge.errors import UsageError
from lorebind_knowledge.extras import import_extra


def answer_key(path: str) -> str:
    """The key of the record that holds what was answered to a task."""
    return f"{path}|answer"


def passed_key(path: str) -> str:
    """The key of the record that lets a paused task begin."""
    return f"{path}|passed"


def check_answer(answer: Any, question: dict[str, Any]) -> None:
    """
    Raises:
        UsageError: the answer is not what the schema of the question says.
    """
    if question["schema"] is None:
        return
    jsonschema = import_extra("jsonschema", extra="workflow", purpose="checking an answer")
    validator = jsonschema.validators.validator_for(question["schema"])(question["schema"])
    error = next(iter(validator.iter_errors(answer)), None)
    if error is not None:
        at = "".join(f"[{step!r}]" for step in error.absolute_path)
        place = f" at {at}" if at else ""
        raise UsageError(
            f"the answer to task {question['path']!r} does not fit its schema{place}: "
            f"{error.message}; the thread still waits, answer it again"
        )
