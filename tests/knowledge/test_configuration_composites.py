"""Problems of tasks that run another workflow, as found while loading."""

from __future__ import annotations

from pathlib import Path

import pytest

from lorebind_config.errors import ConfigurationError
from lorebind_config.reading.loading import load_project

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
    """Return the problems of a project with these workflow files, named a.yaml, b.yaml, …"""
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
    """Return a workflow that runs these others."""
    tasks = "".join(
        f"  - {{ id: t{n}, type: composite, workflow: {name} }}\n" for n, name in enumerate(others)
    )
    return f"id: {workflow}\ntasks:\n  - {{ id: own, prompt: x }}\n{tasks}"


def test_a_composite_is_valid(tmp_path: Path) -> None:
    """Required inputs must be given; optional ones and those with a default may be omitted."""
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
    """Unknown workflows and keys, and wrong or missing inputs, are reported at their position."""
    (line,) = load(tmp_path, INNER, outer(task))
    assert line.startswith(f"w/b.yaml:{problem}"), line


def test_outputs_of_a_composite_may_have_any_name(tmp_path: Path) -> None:
    """The output of another workflow is known only in a run, so any path below it is defined."""
    text = (
        outer("{ id: t, type: composite, workflow: inner, input: { question: q } }")
        + "  - { id: after, prompt: '{{ .tasks.t.output.answer }}' }\n"
    )
    assert load(tmp_path, INNER, text) == []


def test_a_workflow_that_runs_itself(tmp_path: Path) -> None:
    """A workflow that runs itself is a cycle."""
    assert load(tmp_path, calls("a", "a")) == [
        f"w/a.yaml:4:32: workflow 'a' would run itself: a -> a{REMOVE}"
    ]


def test_a_circle_of_two(tmp_path: Path) -> None:
    """A cycle is reported once, at the task that closes it."""
    assert load(tmp_path, calls("a", "b"), calls("b", "a")) == [
        f"w/b.yaml:4:32: workflow 'a' would run itself: a -> b -> a{REMOVE}"
    ]


def test_a_circle_of_three_beside_straight_ways(tmp_path: Path) -> None:
    """Workflows that lead into a cycle, or are called from it, are not part of it."""
    files = [calls("a", "b"), calls("b", "e", "c"), calls("c", "d"), calls("d", "e", "b")]
    assert load(tmp_path, *files, calls("e")) == [
        f"w/d.yaml:5:32: workflow 'b' would run itself: b -> c -> d -> b{REMOVE}"
    ]


def test_two_circles_are_two_problems(tmp_path: Path) -> None:
    """Two tasks that each close a cycle are both reported."""
    assert load(tmp_path, calls("a", "b", "c"), calls("b", "a"), calls("c", "a")) == [
        f"w/b.yaml:4:32: workflow 'a' would run itself: a -> b -> a{REMOVE}",
        f"w/c.yaml:4:32: workflow 'a' would run itself: a -> c -> a{REMOVE}",
    ]


def test_running_the_same_workflow_twice_is_no_circle(tmp_path: Path) -> None:
    """Two tasks, or two workflows, may run the same workflow."""
    assert load(tmp_path, calls("a", "c", "c", "b"), calls("b", "c"), calls("c")) == []


def test_deep_chains_are_walked(tmp_path: Path) -> None:
    """A chain of a thousand workflows loads."""
    count = 1050  # more than Python's stack allows
    files = [calls(f"w{n}", *([f"w{n + 1}"] if n + 1 < count else [])) for n in range(count)]
    (tmp_path / "w").mkdir()
    for number, text in enumerate(files):
        (tmp_path / "w" / f"{number:04}.yaml").write_text(text)
    assert load(tmp_path) == []


def test_a_file_that_cannot_be_read_may_be_any_workflow(tmp_path: Path) -> None:
    """If the id of a workflow cannot be read, no workflow is reported as unknown."""
    problems = load(tmp_path, calls("a", "gone"), "id: [\ntasks: 1\n")
    assert len(problems) == 1
    assert problems[0].startswith("w/b.yaml:3:1: this is not YAML")


def test_a_task_whose_id_cannot_be_read(tmp_path: Path) -> None:
    """A task without a readable id is called `the task`, and no internal value is shown."""
    text = "name: p\nworkflows:\n  - {id: a, tasks: [{id: 3, type: composite, workflow: b}]}\n"
    (tmp_path / "lorebind.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        load_project(tmp_path)
    assert [problem.message for problem in caught.value.problems] == [
        "id: expected text, got the number 3",
        "the task runs unknown workflow 'b'",
    ]
