"""Problems of tasks within tasks, of loops and of lists, found before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lorebind_config.checks.flow import flows
from lorebind_config.declarations.workflows import WorkflowDeclaration

from .flow_problems import problems


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("{ id: a, type: ruter, condition: 'true', routes: { a: b } }", ["task type 'ruter'"]),
        ("{ id: a, type: strange, condition: x, routes: { a: b } }", ["task type 'strange'"]),
        ("{ id: a, prompt: p, on_sucess: { next: b } }", ["unknown key 'on_sucess'"]),
        ("{ id: a, prompt: p, on_success: 5 }", ["on_success: expected a mapping"]),
        ("{ id: a, prompt: p, fnal: true }", ["unknown key 'fnal'"]),
        ("{ id: a, prompt: p, final: maybe }", ["final: expected true or false"]),
        ("{ id: a, type: router, condition: 'true', routes: 5 }", ["routes: expected a mapping"]),
        ("{ id: a, type: router, condition: 5, routes: { x: b } }", ["condition: expected text"]),
        ("{ idd: a, prompt: p, on_success: { next: b } }", ["unknown key 'idd'"]),
    ],
)
@pytest.mark.parametrize("others", ["{ next: c }", "{ next: [a, c] }"])
def test_what_cannot_be_read_may_lead_anywhere(
    tmp_path: Path, task: str, expected: list[str], others: str
) -> None:
    """A partly invalid task has one problem, and its next tasks do not count as unreachable."""
    text = (
        "id: t\ntasks:\n"
        f"  - {{ id: first, type: router, condition: 'true', routes: {{ x: a, y: c }} }}\n"
        f"  - {task}\n"
        "  - { id: b, prompt: '{{ .tasks.first.output }}', on_success: { next: c } }\n"
        "  - { id: c, prompt: p, final: true }\n"
    )
    lines = problems(tmp_path, text)
    assert len(lines) == len(expected), lines
    assert all(start in lines[number] for number, start in enumerate(expected))


ONE_OR_MORE = """\
id: t
tasks:
  - id: p
    type: parallel
    branches:
      - BRANCH
    on_success: { next: NEXT }
  - { id: q, prompt: p, final: true }
"""


@pytest.mark.parametrize(
    ("branch", "expected"),
    [
        ("{ id: a, promt: x }", "6:18: unknown key 'promt'; did you mean 'prompt'"),
        ("[{ id: a, promt: x }]", "6:19: unknown key 'promt'; did you mean 'prompt'"),
        ("{ id: a, prompt: 5 }", "6:18: prompt: expected text, got the number 5"),
        ("[{ id: a, prompt: 5 }]", "6:19: prompt: expected text, got the number 5"),
        ("{ id: a, prompt: '{{ .item }}' }", "6:18: {{ .item }} is not defined"),
        ("[{ id: a, prompt: '{{ .item }}' }]", "6:19: {{ .item }} is not defined"),
        ("{ id: a, prompt: x, condition: '1 +' }", "6:29: condition: it is malformed"),
        ("[{ id: a, prompt: x, condition: '1 +' }]", "6:30: condition: it is malformed"),
        ("{ id: q, prompt: x }", "8:7: task id 'q' is used twice"),
        ("[{ id: q, prompt: x }]", "8:7: task id 'q' is used twice"),
        ("{ id: a, prompt: x, knowledge: [{ id: kb }] }", "6:43: task 'a' binds unknown"),
        ("[{ id: a, prompt: x, knowledge: [{ id: kb }] }]", "6:44: task 'a' binds unknown"),
        ("{ id: a, prompt: x, on_error: { next: b } }", "6:41: task 'a' leads to unknown"),
        ("[{ id: a, prompt: x, on_error: { next: [b] } }]", "6:49: task 'a' leads to unknown"),
        ("{ id: a, type: python, call: 'os:system' }", "6:32: 'os:system' is in Python's"),
        ("[{ id: a, type: python, call: 'os:system' }]", "6:33: 'os:system' is in Python's"),
        ("5", "6:9: branches[0]: expected a mapping, got the number 5"),
        ("[5]", "6:10: branches[0][0]: expected a mapping, got the number 5"),
        ("{ id: a, type: bsic, prompt: x }", "6:18: task type 'bsic' is not supported"),
        ("[{ id: a, type: bsic, prompt: x }]", "6:19: task type 'bsic' is not supported"),
        ("[]", "6:9: branches[0] is empty; write at least one"),
    ],
)
@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("following", ["q", "[q]"])
def test_a_list_may_be_written_as_its_only_item(
    tmp_path: Path, branch: str, expected: str, broken: bool, following: str
) -> None:
    """Both spellings have their problems at the same value, also next to other problems."""
    text = ONE_OR_MORE.replace("BRANCH", branch).replace("NEXT", following)
    lines = problems(tmp_path, text + "description: 5\n" * broken)
    assert len(lines) == 1 + broken, lines
    assert lines[0].startswith(expected), lines


def test_the_python_form_needs_no_lists_either() -> None:
    """A single object may replace a list of one; without a file, the problem has no position."""
    flow = WorkflowDeclaration.model_validate(
        {
            "id": "t",
            "tasks": [
                {
                    "id": "p",
                    "type": "parallel",
                    "branches": [{"id": "a", "prompt": "x", "on_error": {"next": "no"}}],
                }
            ],
        }
    )
    (problem,) = flows([flow])
    assert problem.message == "task 'a' leads to unknown task 'no'"


NESTED = """\
id: t
tasks:
  - { id: before, prompt: p }
  - id: side
    type: parallel
    branches:
      - - { id: left, prompt: "{{ .tasks.before.output }}" }
        - { id: more, prompt: "{{ .tasks.left.output }}", condition: has(tasks.left.output.x) }
      - id: each
        type: collection
        items: "{{ .tasks.before.output }}"
        tasks:
          - { id: one, prompt: "{{ .item }} {{ .index }} {{ .tasks.before.output }}" }
          - id: two
            type: collection
            items: "{{ .tasks.one.output }}"
            task: { id: deep, prompt: "{{ .tasks.one.output }} {{ .tasks.before.output }}" }
  - { id: after, prompt: "{{ .tasks.side.output.left }}" }
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", ""),
        (
            ".tasks.left.output }}",
            ".tasks.one.output }}",
            "8:23: {{ .tasks.one.output }} is not defined: task 'one' cannot come before 'more'; "
            "known: before, left",
        ),
        (
            ".tasks.side.output.left",
            ".tasks.left.output",
            "18:18: {{ .tasks.left.output }} is not defined: task 'left' is inside task 'side'; "
            "use tasks.side.output",
        ),
        (
            'items: "{{ .tasks.one.output }}"',
            'items: "{{ .tasks.deep.output }}"',
            "16:13: {{ .tasks.deep.output }} is not defined: task 'deep' is inside task 'two'; "
            "known: before, one",
        ),
        (
            "{{ .tasks.one.output }} {{ .tasks.before.output }}",
            "{{ .tasks.after.output }}",
            "17:31: {{ .tasks.after.output }} is not defined: task 'after' cannot come before "
            "'deep'; known: before, one",
        ),
        (
            'items: "{{ .tasks.before.output }}"',
            'items: "{{ .item }}"',
            "11:9: {{ .item }} is not defined: item is available only in the tasks of a collection",
        ),
    ],
)
def test_nested_tasks_see_what_comes_before_them(
    tmp_path: Path, old: str, new: str, expected: str
) -> None:
    """A task can use those before it in its list, and those before the tasks that contain it."""
    assert not old or NESTED.count(old) == 1
    lines = problems(tmp_path, NESTED.replace(old, new) if old else NESTED)
    assert lines == ([expected] if expected else [])


LOOP = """\
id: t
tasks:
  - { id: draft, prompt: "{{ .tasks.judge.output }} {{ .tasks.draft.output }}",
      on_success: { next: judge },
      update: { seen: "{{ .output }}", extra: { a: "{{ .output }}" } } }
  - { id: judge, type: router, condition: "size(tasks.draft.output) > 3 ? 'good' : 'again'",
      routes: { good: done, again: draft } }
  - { id: done, prompt: "{{ .state.seen }}", final: true }
channels: { seen: {} }
"""


def test_in_a_loop_tasks_come_before_themselves(tmp_path: Path) -> None:
    """After a router leads back, tasks that run later have also run earlier."""
    assert problems(tmp_path, LOOP) == []


def test_a_loop_without_a_way_out(tmp_path: Path) -> None:
    """The problem is reported once, with the path of the loop."""
    text = LOOP.replace("good: done", "good: judge2").replace(
        "{ id: done, prompt:", "{ id: judge2, on_success: { next: draft }, prompt:"
    )
    assert problems(tmp_path, text.replace(", final: true", "")) == [
        "3:7: task 'draft' never reaches an end: draft -> judge -> draft; add a route to a final "
        "task"
    ]


def test_an_injected_variable_stays_for_later_tasks(tmp_path: Path) -> None:
    """Later tasks can use the variable too, but no template that is filled before it is set."""
    text = """\
id: t
knowledge_bases: [{ id: docs, sources: [{ type: file_glob, path: a.md }] }]
tasks:
  - { id: a, type: aggregate, outputs: { x: "{{ .workflow.vars.block }}" } }
  - { id: b, prompt: "{{ .workflow.vars.block }}", query: "{{ .workflow.vars.block }}",
      update: { extra: "{{ .workflow.vars.block }}" },
      knowledge: [{ id: docs, inject_as: "{{ .workflow.vars.block }}" }] }
  - { id: c, type: aggregate, outputs: { x: "{{ .workflow.vars.block }}" },
      condition: workflow.vars.block != '' }
outputs: { x: "{{ .workflow.vars.block }}" }
"""
    (tmp_path / "a.md").write_text("x")
    undefined = "{{ .workflow.vars.block }} is not defined: .workflow.vars has no 'block'"
    assert problems(tmp_path, text) == [
        f"4:42: {undefined}; known: none",
        f"5:52: {undefined}; known: none",
    ]


def test_a_checkpointer_knows_variables_only(tmp_path: Path) -> None:
    """A checkpointer is created before any run, so it cannot use values of a run."""
    text = "id: t\ncheckpointer: { path: '{{ .input.x }}' }\ninput: { x: {} }\n"
    assert problems(tmp_path, text + "tasks: [{ id: a, prompt: p }]\n") == [
        "2:17: {{ .input.x }} is not defined: there is no scope 'input' here; known: env, secrets"
    ]


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ("[]", "2:1: tasks is empty; write at least one"),
        (
            "[{ id: a, type: collection, items: [1] }]",
            "2:9: missing key 'task'; write the task that runs for each item",
        ),
        (
            "[{ id: a, type: collection, items: [1], tasks: [] }]",
            "2:9: missing key 'task'; write the task that runs for each item",
        ),
        (
            "[{ id: a, type: parallel, branches: [] }]",
            "2:34: branches is empty; write at least one",
        ),
    ],
)
def test_a_list_of_tasks_has_a_first_one(tmp_path: Path, tasks: str, expected: str) -> None:
    """A list of tasks must not be empty."""
    assert problems(tmp_path, f"id: t\ntasks: {tasks}\n") == [expected]


def test_workflows_within_tasks_are_walked(tmp_path: Path) -> None:
    """Unknown workflows and cycles are also found in a composite task within a collection."""
    task = "{{ id: i, type: composite, workflow: {} }}"
    each = f"[{{{{ id: each, type: collection, items: [1], task: {task} }}}}]"
    files = [
        f"id: {name}\ntasks: {each.format(other)}\n" for name, other in (("a", "b"), ("b", "a"))
    ]
    assert problems(tmp_path, *files) == [
        "2:83: workflow 'a' would run itself: a -> b -> a; remove one of these composite tasks"
    ]
    assert problems(tmp_path, files[0].replace("workflow: b", "workflow: c"), files[1]) == [
        "2:83: task 'i' runs unknown workflow 'c'; known: a, b"
    ]
