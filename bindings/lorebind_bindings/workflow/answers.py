"""Records that a resume writes for a suspended thread: answers, and that a paused task may run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lorebind_bindings.workflow.state import checked
from lorebind_config.checks.json_schemas import mismatch
from lorebind_config.errors import UsageError, did_you_mean


def answered(path: str, answer: Any) -> dict[str, Any]:
    """Return the record of an answer to a task."""
    return {"key": f"{path}|answer", "answer": answer}


def passed_key(path: str) -> str:
    """Return the key of the record that lets a paused task start."""
    return f"{path}|passed"


def check_answer(answer: Any, question: Mapping[str, Any]) -> None:
    """Check an answer against the schema of its question.

    Raises:
        UsageError: the answer does not match the schema.
    """
    if question["schema"] is None:
        return
    if why := mismatch(answer, question["schema"]):
        if isinstance(answer, str) and "is not of type" in why:
            why += "; it is text, as is everything on the command line that is not JSON"
        raise UsageError(
            f"the answer to task {question['path']!r} does not match its schema: {why}; the thread "
            "still waits, answer it again"
        )


def answer_to(
    question: Mapping[str, Any], records: Mapping[str, dict[str, Any]]
) -> dict[str, Any] | None:
    """Return the record of the answer to a question; None if there is none that fits its schema.

    The schema may have changed since the question was answered.
    """
    record = records.get(f"{question['path']}|answer")
    if record is None or question["schema"] is None:
        return record
    return None if mismatch(record["answer"], question["schema"]) else record


def was_answered(name: str, answer: Any, records: Mapping[str, dict[str, Any]]) -> bool:
    """Return whether a task, named by its id or path, has received this answer."""
    return any(
        name in (path, re.split(r"[#\[]", path.rpartition(".")[2])[0])
        and record["answer"] == answer
        for path, record in (
            (key.removesuffix("|answer"), record) for key, record in records.items()
        )
        if "answer" in record
    )


def answers_by_path(
    waiting: Sequence[Mapping[str, Any]], answers: Mapping[str, Any]
) -> dict[str, Any]:
    """Return answers by the paths of the tasks that wait for them.

    Args:
        waiting: the questions.
        answers: the answers, by task id or path.

    Raises:
        UsageError: no task waits for an answer of this name, several do, or the answer is not JSON
            or does not match its schema.
    """
    by_path: dict[str, Any] = {}
    wrong: list[UsageError] = []
    for name, answer in answers.items():
        try:
            question = _question(waiting, name)
            path = question["path"]
            by_path[path] = checked(answer, f"the answer to task {path!r}")
            check_answer(by_path[path], question)
        except UsageError as error:
            error.at = ("answers", name)
            wrong.append(error)
    if wrong:
        raise UsageError.of(wrong)
    return by_path


def _question(waiting: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    """Return the question of a task, by its id or path."""
    questions = [question for question in waiting if name in (question["path"], question["task"])]
    if not questions:
        names = {question[key] for question in waiting for key in ("task", "path")}
        raise UsageError(f"no task {name!r} waits for an answer; {did_you_mean(name, names)}")
    if len(questions) > 1 and all(question["path"] != name for question in questions):
        several = ", ".join(question["path"] for question in questions)
        raise UsageError(f"several tasks {name!r} wait for an answer; name one: {several}")
    return next((question for question in questions if question["path"] == name), questions[0])
