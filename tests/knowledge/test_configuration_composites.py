"""Tasks that run another workflow: what loading says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lorebind_knowledge.configuration import load_project
from lorebind_knowledge.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

INNER = """\
id: inner
input:
  question: { type: string }
  limit: { type: integer, default: 3 }
  note: { type: string, required: false }
tasks: [{ id: say, prompt: "{{ .input.question }}" }]
"""

REMOVE = "; remove one of these composite tasks"


def load(root: Path, *workflows: str) -> list[str]:
    """The problems of a project with these workflow files, named a.yaml, b.yaml and so on."""
    (root / "lorebind.yaml").write_text("name: p\nautoload: { include: ['w/*.yaml'] }\n")
    (root / "w").mkdir(exist_ok=True)
    for name, text in zip("abcdef", workflows, strict=False):
        (root / "w" / f"{name}.yaml").write_text(text)
    try:
        load_project(root, environ={})
    except ConfigurationError as error:
        return [str(problem) for problem in error.problems]
    return []


def outer(task: str) -> str:
    return f"id: outer\ninput: {{ ask: {{}} }}\ntasks:\n  - {task}\n"


def calls(workflow: str, *others: str) -> str:
    """A workflow that runs these others."""
    tasks = "".join(
        f"  - {{ id: t{n}, type: composite, workflow: {one} }}\n" for n, one in enumerate(others)
    )
    return f"id: {workflow}\ntasks:\n  - {{ id: own, prompt: x }}\n{tasks}"


def test_a_composite_is_valid(tmp_path: Path) -> None:
    """Required inputs are given; those with a default, and those not required, may be left out."""
    task = "{ id: t, type: composite, workflow: inner, input: { question: '{{ .input.ask }}' } }"
    assert load(tmp_path, INNER, outer(task)) == []


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        (
            "{ id: t, type: composite, workflow: iner }",
            "4:31: task 't' runs unknown workflow 'iner'; did you mean 'inner'; "
            "known: inner, outer",
        ),
        (
            "{ id: t, type: composite, workflow: inner }",
            "4:5: workflow 'inner' needs the input 'question'; write it below input: of task 't'",
        ),
        (
            "{ id: t, type: composite, workflow: inner, input: {} }",
            "4:48: workflow 'inner' needs the input 'question'; write it below input: of task 't'",
        ),
        (
            "{ id: t, type: composite, workflow: inner, input: { question: q, limt: 1 } }",
            "4:70: workflow 'inner' has no input 'limt'; did you mean 'limit'; "
            "known: limit, note, question",
        ),
        (
            "{ id: t, type: composite, workflow: inner, input: { question: '{{ .input.aks }}' } }",
            "4:57: {{ .input.aks }} is not defined: .input has no 'aks'; did you mean 'ask'; "
            "known: ask",
        ),
        (
            "{ id: t, type: composite, workflow: inner, input: { question: q }, prompt: x }",
            "4:72: unknown key 'prompt'; known: cache, condition, final, id, input, on_error, "
            "on_success, retry, timeout_seconds, type, update, workflow",
        ),
        ("{ id: t, type: composite }", "4:5: missing key 'workflow'"),
        (
            "{ id: t, type: composit, workflow: inner, input: { question: q } }",
            "4:14: task type 'composit' is not supported; did you mean 'composite'; "
            "known: aggregate, basic, collection, composite, parallel, python, router, wait",
        ),
        ("{ id: t, workflow: inner, prompt: x }", "4:14: unknown key 'workflow'; known: agent, "),
        ("{ id: t, type: null, prompt: x }", "4:14: type: expected text, got nothing"),
        ("composite", "4:5: tasks[0]: expected a mapping, got the text 'composite'"),
        ("3", "4:5: tasks[0]: expected a mapping, got the number 3"),
        (
            "{ id: t, type: composite, workflow: 3 }",
            "4:31: workflow: expected text, got the number 3",
        ),
    ],
)
def test_what_is_wrong_stands_at_its_place(tmp_path: Path, task: str, problem: str) -> None:
    """Unknown workflows and keys, inputs that are missing, unknown or named by no template."""
    (found,) = load(tmp_path, INNER, outer(task))
    assert found.startswith(f"w/b.yaml:{problem}"), found


def test_outputs_of_a_composite_may_have_any_name(tmp_path: Path) -> None:
    """What another workflow gives is known when it has run, so anything below it is defined."""
    text = (
        outer("{ id: t, type: composite, workflow: inner, input: { question: q } }")
        + "  - { id: after, prompt: '{{ .tasks.t.output.answer }}' }\n"
    )
    assert load(tmp_path, INNER, text) == []


def test_a_workflow_that_runs_itself(tmp_path: Path) -> None:
    """A circle of one."""
    assert load(tmp_path, calls("a", "a")) == [
        f"w/a.yaml:4:32: workflow 'a' would run itself: a -> a{REMOVE}"
    ]


def test_a_circle_of_two(tmp_path: Path) -> None:
    """It is said once, where it closes."""
    assert load(tmp_path, calls("a", "b"), calls("b", "a")) == [
        f"w/b.yaml:4:32: workflow 'a' would run itself: a -> b -> a{REMOVE}"
    ]


def test_a_circle_of_three_beside_straight_ways(tmp_path: Path) -> None:
    """Workflows that lead into a circle, or out of it, are no part of it."""
    files = [calls("a", "b"), calls("b", "e", "c"), calls("c", "d"), calls("d", "e", "b")]
    assert load(tmp_path, *files, calls("e")) == [
        f"w/d.yaml:5:32: workflow 'b' would run itself: b -> c -> d -> b{REMOVE}"
    ]


def test_two_circles_are_two_problems(tmp_path: Path) -> None:
    """Two tasks that close a circle each are both named."""
    assert load(tmp_path, calls("a", "b", "c"), calls("b", "a"), calls("c", "a")) == [
        f"w/b.yaml:4:32: workflow 'a' would run itself: a -> b -> a{REMOVE}",
        f"w/c.yaml:4:32: workflow 'a' would run itself: a -> c -> a{REMOVE}",
    ]


def test_running_the_same_workflow_twice_is_no_circle(tmp_path: Path) -> None:
    """Two tasks, or two workflows, may run the same one."""
    assert load(tmp_path, calls("a", "c", "c", "b"), calls("b", "c"), calls("c")) == []


def test_deep_chains_are_walked(tmp_path: Path) -> None:
    """A thousand workflows that run each other in a row are no trouble to load."""
    count = 1050  # more than Python's stack holds
    files = [calls(f"w{n}", *([f"w{n + 1}"] if n + 1 < count else [])) for n in range(count)]
    (tmp_path / "w").mkdir()
    for number, text in enumerate(files):
        (tmp_path / "w" / f"{number:04}.yaml").write_text(text)
    assert load(tmp_path) == []


def test_a_file_that_cannot_be_read_may_be_any_workflow(tmp_path: Path) -> None:
    """Where one workflow's id is not known, none is called unknown."""
    found = load(tmp_path, calls("a", "gone"), "id: [\ntasks: 1\n")
    assert len(found) == 1
    assert found[0].startswith("w/b.yaml:3:1: this is not YAML")


def test_a_task_whose_id_cannot_be_read(tmp_path: Path) -> None:
    """It is called the task: nothing of how it is kept meanwhile is shown."""
    text = "name: p\nworkflows:\n  - {id: a, tasks: [{id: 3, type: composite, workflow: b}]}\n"
    (tmp_path / "lorebind.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        load_project(tmp_path)
    assert [problem.message for problem in caught.value.problems] == [
        "id: expected text, got the number 3",
        "the task runs unknown workflow 'b'",
    ]
