"""Problems of the graph of a workflow, found before anything runs, with line and column."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from lorebind_config.checks.flow import flows
from lorebind_config.checks.task_graph import TaskGraph
from lorebind_config.declarations.flow import Flow
from lorebind_config.declarations.workflows import WorkflowDeclaration
from lorebind_config.errors import ConfigurationError
from lorebind_config.reading.loading import load_project
from tests.density import examples

TRIAGE = """\
id: triage
input: { ticket: {} }
tasks:
  - { id: read, type: python, call: "steps:read", with: { ticket: "{{ .input.ticket }}" },
      on_success: { next: kind }, on_error: { next: [apologise] } }
  - { id: kind, type: router, condition: tasks.read.output.kind,
      routes: { question: answers, refund: [approve] }, default: apologise }
  - id: answers
    type: collection
    items: "{{ .tasks.read.output.questions }}"
    filter: item != '' && index < 9
    task: { id: answer, prompt: "{{ .item }}" }
    on_success: { next: reply }
  - id: approve
    type: wait
    prompt: Pay?
    schema: { type: object, properties: { ok: { type: boolean } } }
    on_success: { next: reply }
  - { id: reply, type: aggregate, final: true, outputs: { all: "{{ .tasks.answers.output }}" } }
  - { id: apologise, prompt: "{{ .error.message }}", final: true }
outputs: { all: "{{ .tasks.reply.output }}" }
"""


def problems(root: Path, *workflows: str) -> list[str]:
    """Return the problems of a project with these workflow files, without the file names."""
    (root / "w").mkdir(exist_ok=True)
    (root / "lorebind.yaml").write_text("name: p\nautoload: { include: ['w/*.yaml'] }\n")
    for number, text in enumerate(workflows):
        (root / "w" / f"{number}.yaml").write_text(text)
    try:
        load_project(root, environ={})
    except ConfigurationError as error:
        return [str(problem).partition(":")[2] for problem in error.problems]
    return []


def changed(root: Path, old: str, new: str) -> list[str]:
    assert TRIAGE.count(old) == 1, TRIAGE.count(old)
    return problems(root, TRIAGE.replace(old, new))


def test_the_workflow_without_mistakes_is_valid(tmp_path: Path) -> None:
    """The workflow that the tests below change is valid."""
    assert problems(tmp_path, TRIAGE) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "on_success: { next: kind }",
            "on_success: { next: kid }",
            "5:21: task 'read' leads to unknown task 'kid'; did you mean 'kind'; known: answers, "
            "apologise, approve, kind, read, reply",
        ),
        (
            "next: [apologise]",
            "next: [apologise, sorry]",
            "5:65: task 'read' leads to unknown task 'sorry'; known: answers, apologise, "
            "approve, kind, read, reply",
        ),
        (
            "refund: [approve]",
            "refund: [aprove]",
            "7:45: task 'kind' leads to unknown task 'aprove'; did you mean 'approve'; known: "
            "answers, apologise, approve, kind, read, reply",
        ),
        (
            "default: apologise",
            "default: answer",
            "7:57: task 'kind' leads to task 'answer', which is in another list of tasks; known: "
            "answers, apologise, approve, kind, read, reply",
        ),
        (
            "refund: [approve]",
            "refund: answers",
            "14:5: task 'approve' is never reached; add an edge to it from task 'read', or "
            "remove it",
        ),
        (
            ", final: true, outputs",
            ", outputs",
            "19:7: task 'reply' has no next task; task 'read' (line 4) has edges, so the order "
            "of the list does not apply: write on_success or final: true",
        ),
        (
            ", final: true, outputs",
            ", final: true, on_success: { next: apologise }, outputs",
            "19:48: task 'reply' is final, but has on_success; remove one of them",
        ),
        (
            ", final: true, outputs",
            ", on_success: { next: reply }, outputs",
            "19:49: task 'reply' is its own next task; add a router to the loop",
        ),
        (
            ", final: true, outputs",
            ", on_success: { next: [answers] }, outputs",
            "19:56: task 'answers' is in a loop without a router: answers -> reply -> answers; "
            "add a router to the loop",
        ),
        (
            "default: apologise",
            "default: kind",
            "7:57: task 'kind' is its own next task; add a router to the loop",
        ),
        (
            "next: [apologise]",
            "next: [apologise, apologise]",
            "5:47: task 'read' leads to task 'apologise' twice; name it once",
        ),
        ("{ next: kind }", "{ next: [] }", "5:21: next is empty; write at least one"),
        (
            "{ next: kind }",
            "{ next: 5 }",
            '5:21: next: expected text, got the number 5; quote it: "5"',
        ),
        (
            "{ next: kind }",
            "{ next: [5] }",
            '5:28: next[0]: expected text, got the number 5; quote it: "5"',
        ),
        (
            "refund: [approve]",
            "refund: [approve, 5]",
            '7:54: refund[1]: expected text, got the number 5; quote it: "5"',
        ),
        (
            "default: apologise",
            "default: 5",
            '7:57: default: expected text, got the number 5; quote it: "5"',
        ),
        (
            "condition: tasks.read.output.kind",
            'condition: "{{ .tasks.read.output.kind }}"',
            "6:31: condition is a CEL expression, not a template; write tasks.read.output.kind",
        ),
        (
            "condition: tasks.read.output.kind",
            "condition: tasks.read.output.kind +",
            "6:31: condition: it is malformed: at line 1, column 25, it ends too early; write it "
            "in CEL, as in tasks.read.output.kind == 'refund'",
        ),
        (
            "condition: tasks.read.output.kind",
            "condition: size(tasks.red.output)",
            "6:31: condition: tasks.red is not defined; did you mean 'read'; known: read",
        ),
        (
            "condition: tasks.read.output.kind",
            "condition: tasks.reply.output",
            "6:31: condition: tasks.reply is not defined: task 'reply' cannot come before 'kind'; "
            "known: read",
        ),
        (
            "condition: tasks.read.output.kind",
            "condition: tasks.read.outputs",
            "6:31: condition: tasks.read.outputs is not defined; did you mean 'output'; known: "
            "output",
        ),
        (
            "condition: tasks.read.output.kind",
            "condition: input.tickt",
            "6:31: condition: input.tickt is not defined: .input has no 'tickt'; did you mean "
            "'ticket'; known: ticket; declare it below input:",
        ),
        (
            "condition: tasks.read.output.kind",
            "condition: '[output]'",
            "6:31: condition: its value is of type list; expected text, an integer, true or false",
        ),
        (
            "condition: tasks.read.output.kind",
            "condition: item.kind",
            "6:31: condition: item is not defined: item is available only in the tasks of a "
            "collection",
        ),
        (
            "filter: item != '' && index < 9",
            "filter: itm != ''",
            "11:5: filter: it uses unknown name 'itm'; did you mean 'item'; known: error, index, "
            "input, item, output, state, tasks, workflow",
        ),
        (
            "filter: item != '' && index < 9",
            "filter: size(item)",
            "11:5: filter: its value is of type int; expected true or false",
        ),
        (
            "filter: item != '' && index < 9",
            "filter: tasks.answer.output == item",
            "11:5: filter: tasks.answer is not defined: task 'answer' is inside task 'answers'; "
            "known: kind, read",
        ),
        (
            "{{ .item }}",
            "{{ .tasks.answers.output }}",
            "12:25: {{ .tasks.answers.output }} is not defined: task 'answers' cannot come before "
            "'answer'; known: kind, read",
        ),
        (
            "prompt: Pay?",
            "prompt: '{{ .index }}'",
            "16:5: {{ .index }} is not defined: index is available only in the tasks of a "
            "collection",
        ),
        (
            "prompt: Pay?",
            "prompt: '{{ .error.type }}'",
            "16:5: {{ .error.type }} is not defined: error is available only after an on_error",
        ),
        (
            "prompt: Pay?",
            "prompt: '{{ .output }}'",
            "16:5: {{ .output }} is not defined: output is available only in update and in "
            "conditions",
        ),
        (
            "{{ .error.message }}",
            "{{ .error.mesage }}",
            "20:22: {{ .error.mesage }} is not defined: .error has no 'mesage'; did you mean "
            "'message'; known: message, task, type",
        ),
        (
            "{{ .error.message }}",
            "{{ .state.mesages }}",
            "20:22: {{ .state.mesages }} is not defined: .state has no 'mesages'; did you mean "
            "'messages'; known: errors, extra, messages",
        ),
        (
            "{{ .tasks.reply.output }}",
            "{{ .tasks.answer.output }}",
            "21:12: {{ .tasks.answer.output }} is not defined: task 'answer' is inside task "
            "'answers'; use tasks.answers.output",
        ),
        (
            "prompt: Pay?",
            "prompt: Pay?\n    update: { sen: 1 }",
            "17:15: task 'approve' updates unknown channel 'sen'; known: errors, extra, messages; "
            "declare it below channels:",
        ),
        (
            "input: { ticket: {} }",
            "input: { ticket: {} }\nchannels: { seen: {}, errors: {} }",
            "3:23: channel 'errors' is built in and cannot be declared; every workflow has "
            "messages, extra, errors; choose another name",
        ),
        (
            "input: { ticket: {} }",
            'input: { ticket: {} }\nchannels: { seen: { reducers: ["a:b", "os:system"] } }',
            "3:39: 'os:system' is in Python's standard library, which is not allowed here; "
            "write a class or function in the project folder that uses it",
        ),
        (
            'call: "steps:read"',
            'call: "subprocess:run"',
            "4:31: 'subprocess:run' is in Python's standard library, which is not allowed here; "
            "write a class or function in the project folder that uses it",
        ),
        (
            "type: boolean",
            "type: bolean",
            "17:49: schema is not a valid JSON Schema: 'bolean' at $.properties.ok.type "
            "is not one of array, boolean, integer, null, number, object, string",
        ),
        (
            "schema: { type: object",
            "schema: { pattern: '(', type: object",
            "17:15: schema is not a valid JSON Schema: '(' is not a 'regex'",
        ),
        (
            "ok: { type: boolean }",
            "ok: { $ref: 'https://example.com/ok.json' }",
            "17:49: schema is not a valid JSON Schema: there is no 'https://example.com/ok.json' "
            "in it",
        ),
        (
            "ok: { type: boolean }",
            "ok: { $ref: '#/$defs/no' }",
            "17:49: schema is not a valid JSON Schema: there is no '#/$defs/no' in it",
        ),
        (
            "task: { id: answer",
            "tasks: [{ id: other, prompt: p, final: true }, { id: answer",
            None,
        ),
    ],
)
def test_one_mistake_is_one_problem(
    tmp_path: Path, old: str, new: str, expected: str | None
) -> None:
    """Each mistake is reported at its position, and without consequential problems."""
    if expected is None:
        text = TRIAGE.replace(old, new).replace('"{{ .item }}" }', '"{{ .item }}" }]')
        assert problems(tmp_path, text) == [
            "12:37: task 'other' is final, so task 'answer' never runs; write "
            "on_success, or remove final"
        ]
        return
    assert changed(tmp_path, old, new) == [expected]


def test_all_are_said_at_once(tmp_path: Path) -> None:
    """Mistakes in one list of tasks do not hide each other."""
    text = TRIAGE.replace("next: kind", "next: kid").replace("default: apologise", "default: kind")
    text = text.replace("{ next: [apologise] }", "{ next: reply }").replace(
        "prompt: Pay?", "prompt: '{{ .item }}'"
    )
    lines = problems(tmp_path, text.replace('"{{ .error.message }}"', "5"))
    assert [line.partition(";")[0] for line in lines] == [
        "5:21: task 'read' leads to unknown task 'kid'",
        "7:57: task 'kind' is its own next task",
        "16:5: {{ .item }} is not defined: item is available only in the tasks of a collection",
        "20:22: prompt: expected text, got the number 5",
    ]


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


def test_without_the_extra_a_project_still_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing extra is reported when a workflow that needs it runs."""
    from lorebind_config.checks import conditions

    for module in ("cel_expr_python", "jsonschema"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "cel_expr_python.cel", raising=False)
    conditions._runtime.cache_clear()
    conditions.compile_condition.cache_clear()
    try:
        assert problems(tmp_path, TRIAGE) == []
    finally:
        conditions._runtime.cache_clear()


# A brute-force model that walks every path through a small graph.


@st.composite
def graphs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Generate tasks whose edges mostly lead to later tasks."""
    count = draw(st.integers(1, 6))
    names = [f"t{number}" for number in range(count)]
    written = draw(st.integers(0, 5)) > 0
    tasks: list[dict[str, Any]] = []
    for number, name in enumerate(names):
        later = st.sampled_from(names[number + 1 :] or names)
        rarely = st.integers(0, 11).map(lambda number: number == 0)
        anywhere = st.sampled_from([*names, *names, "gone"])
        target = anywhere if draw(rarely) else later
        targets = st.lists(target, min_size=1, max_size=2, unique=not draw(rarely))
        task: dict[str, Any] = {"id": name, "prompt": "p"}
        ends = number == count - 1 or draw(rarely)
        if draw(rarely) if not written else ends != draw(rarely):
            task["final"] = True
        if written and draw(st.integers(0, 3)) == 0:
            task = {"id": name, "type": "router", "condition": "'r'", "routes": {}}
            for route in ("r", "s")[: draw(st.integers(1, 2))]:
                task["routes"][route] = draw(st.lists(anywhere, min_size=1, max_size=1) | targets)
            if draw(st.booleans()):
                task["default"] = draw(targets)
        elif written and ("final" not in task or draw(rarely)) and not draw(rarely):
            task["on_success"] = {"next": draw(targets)}
        if written and draw(rarely):
            task["on_error"] = {"next": draw(targets)}
        tasks.append(task)
    return tasks


def lists_of(task: dict[str, Any]) -> Iterator[list[str]]:
    yield from task.get("routes", {}).values()
    if "default" in task:
        yield task["default"]
    for field in ("on_success", "on_error"):
        if field in task:
            yield task[field]["next"]


def ways(start: str, edges: dict[str, list[str]]) -> Iterator[list[str]]:
    """Yield all paths from a task that visit no task twice, except perhaps the last one."""
    todo = [[start]]
    while todo:
        way = todo.pop()
        yield way
        if way.count(way[-1]) == 1:
            todo += [[*way, after] for after in edges[way[-1]]]


def refused_by_model(tasks: list[dict[str, Any]]) -> set[str]:
    """Return the kinds of problems for which a graph is refused."""
    names = [task["id"] for task in tasks]
    by_name = dict(zip(names, tasks, strict=True))
    lists = {name: list(lists_of(task)) for name, task in by_name.items()}
    if not any(lists.values()):
        late = any(task.get("final") for task in tasks[:-1])
        return {"is final, so task"} if late else set()
    edges = {
        name: [target for route in routes for target in route if target in by_name]
        for name, routes in lists.items()
    }
    kinds = set()
    for name, task in by_name.items():
        routed, final = "routes" in task, task.get("final", False)
        if any(target not in by_name for route in lists[name] for target in route):
            kinds.add("unknown task")
        if any(len(set(route)) < len(route) for route in lists[name]):
            kinds.add("twice")
        if name in edges[name]:
            kinds.add("its own next task")
        if not routed and not final and "on_success" not in task:
            kinds.add("has on_error but" if "on_error" in task else "has no next task")
        if final and "on_success" in task:
            kinds.add("is final, but has")
        all_ways = list(ways(name, edges))
        for way in all_ways:
            if way[-1] == name and len(way) > 2 and not any("routes" in by_name[n] for n in way):
                kinds.add("without a router")
        if not any(by_name[n].get("final") for way in all_ways for n in way):
            kinds.add("never reaches an end")
    reached = {name for way in ways(names[0], edges) for name in way}
    if reached != set(names):
        kinds.add("is never reached")
    return kinds


CONSEQUENCES = {
    "never reaches an end": {
        "has no next task",
        "has on_error but",
        "without a router",
        "its own next task",
        "unknown task",
    },
    "is never reached": {"unknown task"},
    "has no next task": {"unknown task"},
    "has on_error but": {"unknown task"},
}
"""The problems that are not reported next to another problem that explains them."""


@given(graphs())
@settings(max_examples=examples(500), deadline=None)
def test_a_graph_is_accepted_exactly_if_the_model_accepts_it(tasks: list[dict[str, Any]]) -> None:
    """The reported kinds of problems are exactly those of the model."""
    workflow = WorkflowDeclaration.model_validate({"id": "w", "tasks": tasks})
    messages = [problem.message for problem in flows([workflow])]
    expected = refused_by_model(tasks)
    event("accepted" if not expected else ", ".join(sorted(expected)))
    for message in messages:
        assert any(kind in message for kind in expected), (messages, expected)
    reported = {kind for kind in expected if any(kind in message for message in messages)}
    for kind in expected - reported:
        assert CONSEQUENCES.get(kind, set()) & reported, (messages, expected)


@given(graphs().filter(lambda tasks: not refused_by_model(tasks)))
@settings(max_examples=examples(200), deadline=None)
def test_loading_and_running_see_the_same_graph(tasks: list[dict[str, Any]]) -> None:
    """For a valid list of tasks, loading, running and the generated edges give one graph."""
    workflow = WorkflowDeclaration.model_validate({"id": "w", "tasks": tasks})
    graph, flow = TaskGraph(workflow.tasks), Flow(workflow.tasks)
    names = [task["id"] for task in tasks]
    lists = {task["id"]: list(lists_of(task)) for task in tasks}
    edges = {name: [target for hop in hops for target in hop] for name, hops in lists.items()}
    if not any(lists.values()):
        edges = {name: [] for name in names} | {a: [b] for a, b in pairwise(names)}
    for number, source in enumerate(names):
        after = {name for way in ways(source, edges) for name in way[1:]}
        for other, target in enumerate(names):
            assert graph.can_reach(number, other) == (target in after)
            assert flow.can_reach(source, target) == (target in after)
