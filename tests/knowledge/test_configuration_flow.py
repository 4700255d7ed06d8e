"""Problems of the graph of a workflow, found before anything runs, with line and column."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .flow_problems import problems

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


"""The problems that are not reported next to another problem that explains them."""
