"""Mistakes in the graph of a workflow, each with its message."""

from __future__ import annotations

from .mistaken_project import (
    GRAPH_FILE,
    Mistake,
)

OF_GRAPHS = [
    Mistake(
        "an unknown task to go on to",
        GRAPH_FILE,
        "next: kind",
        "next: kid",
        "workflows/sort.yaml:6:19: task 'look' leads to unknown task 'kid'; did you mean 'kind'; "
        "known: ask, both, each, kind, look, sorry",
        hides=("edge",),
    ),
    Mistake(
        "a task of another list to go on to",
        GRAPH_FILE,
        "default: sorry",
        "default: part",
        "workflows/sort.yaml:8:41: task 'kind' leads to task 'part', which is in another list of "
        "tasks; known: ask, both, each, kind, look, sorry",
        hides=("edge",),
    ),
    Mistake(
        "a task that is never reached",
        GRAPH_FILE,
        ", on_success: {next: both}}",
        ", final: true}",
        "workflows/sort.yaml:15:5: task 'both' is never reached; add an edge to it from task "
        "'look', or remove it",
        hides=("edge",),
    ),
    Mistake(
        "a task that leads nowhere",
        GRAPH_FILE,
        "    final: true\n  - {id: ask",
        "  - {id: ask",
        "workflows/sort.yaml:15:5: task 'both' has no next task; task 'look' (line 5) has edges, "
        "so the order of the list does not apply: write on_success or final: true",
    ),
    Mistake(
        "an edge out of a final task",
        GRAPH_FILE,
        "    final: true\n  - {id: ask",
        "    final: true\n    on_success: {next: sorry}\n  - {id: ask",
        "workflows/sort.yaml:21:5: task 'both' is final, but has on_success; remove one of them",
    ),
    Mistake(
        "a task that goes on to itself",
        GRAPH_FILE,
        "none: [ask]",
        "none: [ask, kind]",
        "workflows/sort.yaml:8:39: task 'kind' is its own next task; add a router to the loop",
    ),
    Mistake(
        "a final task before others",
        GRAPH_FILE,
        "{id: right, prompt: Sum up.}",
        "{id: right, prompt: Sum up., final: true}",
        "workflows/sort.yaml:19:39: task 'right' is final, so task 'further' never runs; "
        "write on_success, or remove final",
    ),
    Mistake(
        "a malformed condition",
        GRAPH_FILE,
        "condition: tasks.look.output.kind",
        "condition: tasks.look.output.kind +",
        "workflows/sort.yaml:7:30: condition: it is malformed: at line 1, column 25, it ends "
        "too early; write it in CEL, as in tasks.read.output.kind == 'refund'",
    ),
    Mistake(
        "a template for a condition",
        GRAPH_FILE,
        "condition: tasks.look.output.kind",
        'condition: "{{ .tasks.look.output.kind }}"',
        "workflows/sort.yaml:7:30: condition is a CEL expression, not a template; write "
        "tasks.look.output.kind",
    ),
    Mistake(
        "a filter that names an unknown task",
        GRAPH_FILE,
        "tasks.look.output.skip",
        "tasks.loko.output.skip",
        "workflows/sort.yaml:12:5: filter: tasks.loko is not defined; did you mean 'look'; "
        "known: kind, look",
    ),
    Mistake(
        "an item outside of a collection",
        GRAPH_FILE,
        "Sum up.",
        '"{{ .item }}"',
        "workflows/sort.yaml:19:22: {{ .item }} is not defined: item is available only in the "
        "tasks of a collection",
    ),
    Mistake(
        "an unknown channel",
        GRAPH_FILE,
        "update: {seen:",
        "update: {sen:",
        "workflows/sort.yaml:13:54: task 'part' updates unknown channel 'sen'; did you mean "
        "'seen'; known: errors, extra, messages, seen; declare it below channels:",
    ),
    Mistake(
        "a channel that is there",
        GRAPH_FILE,
        "{seen: {reducers:",
        "{extra: {}, seen: {reducers:",
        "workflows/sort.yaml:3:12: channel 'extra' is built in and cannot be declared; every "
        "workflow has messages, extra, errors; choose another name",
    ),
    Mistake(
        "a reducer of the standard library",
        GRAPH_FILE,
        "own:first",
        "functools:reduce",
        "workflows/sort.yaml:3:30: 'functools:reduce' is in Python's standard library, which "
        "is not allowed here; write a class or function in the project folder that uses it",
    ),
    Mistake(
        "a schema that is none",
        GRAPH_FILE,
        "{type: object}",
        "{type: objct}",
        "workflows/sort.yaml:21:54: schema is not a valid JSON Schema: 'objct' at $.type "
        "is not one of array, boolean, integer, null, number, object, string",
    ),
    Mistake(
        "a task that is in another",
        GRAPH_FILE,
        ".tasks.ask.output",
        ".tasks.part.output",
        "workflows/sort.yaml:18:20: {{ .tasks.part.output }} is not defined: task 'part' is "
        "inside task 'each'; use tasks.each.output",
    ),
    Mistake(
        "an error where none can be",
        GRAPH_FILE,
        "Go on.",
        "{{ .error.type }}",
        "workflows/sort.yaml:21:27: {{ .error.type }} is not defined: error is available only "
        "after an on_error",
    ),
    Mistake(
        "an edge that is no mapping",
        GRAPH_FILE,
        "on_success: {next: kind}",
        "on_success: kind",
        "workflows/sort.yaml:6:6: on_success: expected a mapping, got the text 'kind'",
        hides=("edge",),
    ),
    Mistake(
        "an unknown key of a branch",
        GRAPH_FILE,
        "{id: left, prompt:",
        "{id: left, promt: x, prompt:",
        "workflows/sort.yaml:18:20: unknown key 'promt'; did you mean 'prompt'; known: agent,"
        " cache, condition, final, history, id, knowledge, on_error, on_success, prompt, "
        "query, retry, timeout_seconds, type, update",
    ),
]
