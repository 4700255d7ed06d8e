"""Mistakes in the files of agents and small workflows, each with its message."""

from __future__ import annotations

from .mistaken_project import (
    AGENT_FILE,
    CRITIC,
    OTHER_FILE,
    WORKFLOW_FILE,
    Mistake,
)

OF_AGENTS = [
    Mistake(
        "not YAML",
        WORKFLOW_FILE,
        "vars: {tone: kind,",
        "vars: {tone: [kind,",
        "workflows/triage.yaml:6:74: this is not YAML: expected ',' or ']', but got '}'",
        hides=(WORKFLOW_FILE,),
    ),
    Mistake(
        "a tab",
        OTHER_FILE,
        "  - {id: only",
        "\t- {id: only",
        "workflows/reply.yaml:3:1: this is not YAML: found character that cannot start any "
        "token; indent with spaces, not with tabs",
        hides=(OTHER_FILE,),
    ),
    Mistake(
        "a control character",
        OTHER_FILE,
        "Write a reply.",
        "Write\x00a reply.",
        "workflows/reply.yaml:3:44: there is a control character here; remove it",
        hides=(OTHER_FILE,),
    ),
    Mistake(
        "a second document",
        OTHER_FILE,
        "tasks:",
        "---\ntasks:",
        "workflows/reply.yaml:2:1: a second document starts here; write one per file, or remove "
        "the line '---'",
        hides=(OTHER_FILE,),
    ),
    Mistake(
        "an unknown alias",
        AGENT_FILE,
        "Criticise.",
        "*nobody",
        "agents/critic.yaml:3:15: this is not YAML: found undefined alias",
        hides=(AGENT_FILE,),
    ),
    Mistake(
        "a YAML tag on a mapping",
        AGENT_FILE,
        "top_k: 3",
        "top_k: !!set {a}",
        "agents/critic.yaml:6:12: YAML tags are not supported here",
        hides=(AGENT_FILE,),
    ),
    Mistake(
        "a list for a file",
        AGENT_FILE,
        CRITIC,
        "- a\n",
        "agents/critic.yaml:1:1: expected a mapping of keys at the top of the file",
        hides=(
            AGENT_FILE,
            "agent",
        ),
    ),
    Mistake(
        "a word for a file",
        AGENT_FILE,
        CRITIC,
        "word\n",
        "agents/critic.yaml:1:1: expected a mapping of keys at the top of the file",
        hides=(
            AGENT_FILE,
            "agent",
        ),
    ),
    Mistake(
        "an empty file",
        AGENT_FILE,
        CRITIC,
        "# nothing\n",
        "agents/critic.yaml:1:1: the file is empty; write at least a name or an id",
        hides=(
            AGENT_FILE,
            "agent",
        ),
    ),
    Mistake(
        "a key twice, deep",
        WORKFLOW_FILE,
        "deep: {er: 1}",
        "deep: {er: 1, er: 2}",
        "workflows/triage.yaml:6:34: the key 'er' is written twice; it is first written at "
        "workflows/triage.yaml:6:27",
        hides=("deep.er",),
    ),
    Mistake(
        "a list twice",
        WORKFLOW_FILE,
        'outputs: {answer: "{{ .tasks.second.output }}"}',
        "knowledge_bases: []",
        "workflows/triage.yaml:23:1: the key 'knowledge_bases' is written twice; it is first "
        "written at workflows/triage.yaml:7:1",
        hides=("knowledge base",),
    ),
    Mistake(
        "a key that YAML reads as a boolean",
        WORKFLOW_FILE,
        "lines: {type: array",
        "on: {}\n  lines: {type: array",
        'workflows/triage.yaml:5:3: YAML reads the key on as a boolean; quote it: "on"',
    ),
    Mistake(
        "a key that is a number",
        WORKFLOW_FILE,
        "tone: kind",
        "1: x, tone: kind",
        'workflows/triage.yaml:6:8: YAML reads the key 1 as a number; quote it: "1"',
    ),
    Mistake(
        "a key that is a list",
        WORKFLOW_FILE,
        'made: "{{ .workflow.input.question }}"',
        "? [a] : 1",
        "workflows/triage.yaml:6:37: a key must be text, not a list or a mapping",
    ),
    Mistake(
        "a missing key",
        OTHER_FILE,
        ", prompt: Write a reply.",
        "",
        "workflows/reply.yaml:3:5: missing key 'prompt'",
    ),
    Mistake(
        "a word that is not among the choices",
        WORKFLOW_FILE,
        "type: array",
        "type: list",
        "workflows/triage.yaml:5:11: type 'list' is not supported; known: array, boolean, "
        "integer, number, object, string",
    ),
    Mistake(
        "a number out of its limits",
        AGENT_FILE,
        "top_k: 3",
        "top_k: 99",
        "agents/critic.yaml:6:5: top_k is 99; expected 1 to 50",
    ),
    Mistake(
        "a number for a text",
        WORKFLOW_FILE,
        'version: "1.0"',
        "version: 1.10",
        "workflows/triage.yaml:2:1: version: expected text, got the number 1.10; YAML reads "
        '1.10 as the number 1.1; quote it: "1.10"',
    ),
    Mistake(
        "a date in free values",
        WORKFLOW_FILE,
        "er: 1",
        "er: 2024-01-02",
        "workflows/triage.yaml:6:27: expected text, a number, a boolean, a list or a mapping, "
        "got a date; quote it to make it text",
        hides=("deep.er",),
    ),
    Mistake(
        "an infinite number",
        WORKFLOW_FILE,
        "er: 1",
        "er: .inf",
        "workflows/triage.yaml:6:27: a number must be finite",
        hides=("deep.er",),
    ),
    Mistake(
        "a text for a boolean",
        WORKFLOW_FILE,
        "required: false",
        'required: "false"',
        "workflows/triage.yaml:5:24: required: expected true or false, got the text 'false'; "
        "write it without quotes",
    ),
    Mistake(
        "nothing for a list",
        WORKFLOW_FILE,
        "knowledge:\n  - {id: own}",
        "knowledge:",
        "workflows/triage.yaml:10:1: knowledge: expected a list, got nothing; write a value or "
        "remove the key",
        hides=("own",),
    ),
    Mistake(
        "a default of another type",
        WORKFLOW_FILE,
        "required: false",
        "default: 5",
        "workflows/triage.yaml:5:24: the default is not of type array",
    ),
    Mistake(
        "id and id_ref",
        AGENT_FILE,
        "id: docs",
        "id: docs\n    id_ref: docs",
        "agents/critic.yaml:6:5: id and id_ref mean the same; keep one of them",
    ),
    Mistake(
        "an override twice",
        WORKFLOW_FILE,
        "{id: docs, retrieval",
        "{id: docs, top_k: 2, retrieval",
        "workflows/triage.yaml:22:50: top_k is set twice: here and next to 'retrieval'; keep "
        "one of them",
    ),
    Mistake(
        "an id with a colon",
        OTHER_FILE,
        "id: only",
        "id: a:b",
        "workflows/reply.yaml:3:6: 'a:b' cannot be an id; an id starts with a letter or "
        "digit, followed by letters, digits, '_', '.' or '-'",
    ),
    Mistake(
        "an id twice, in two files",
        OTHER_FILE,
        "id: reply",
        "id: triage",
        "workflows/triage.yaml:1:1: workflow id 'triage' is used twice; it is first used at "
        "workflows/reply.yaml:1:1",
        hides=(WORKFLOW_FILE,),
    ),
    Mistake(
        "a binding twice",
        WORKFLOW_FILE,
        "  - {id: own}",
        "  - {id: own}\n  - {id: own}",
        "workflows/triage.yaml:12:6: binding id 'own' is used twice; it is first used at "
        "workflows/triage.yaml:11:6",
        hides=("own",),
    ),
    Mistake(
        "an unknown agent",
        WORKFLOW_FILE,
        "agent: critic",
        "agent: critik",
        "workflows/triage.yaml:16:5: task 'first' uses unknown agent 'critik'; did you mean "
        "'critic'; known: critic, helper, local",
        hides=("agent",),
    ),
    Mistake(
        "a binding to nothing",
        AGENT_FILE,
        "id: docs",
        "id: dosc",
        "agents/critic.yaml:5:5: agent 'critic' binds unknown knowledge base 'dosc'; did you "
        "mean 'docs'; known: docs, faq",
        hides=("knowledge base",),
    ),
    Mistake(
        "a tool that searches nothing",
        AGENT_FILE,
        "knowledge: faq",
        "knowledge: fac",
        "agents/critic.yaml:9:6: agent 'critic' uses unknown knowledge base 'fac'; did you mean "
        "'faq'; known: docs, faq",
        hides=("knowledge base",),
    ),
    Mistake(
        "a tool that is no code",
        AGENT_FILE,
        "refunds:refund",
        "refunds.refund",
        "agents/critic.yaml:8:5: 'refunds.refund' is not of the form 'module:name'; for a "
        "knowledge base write { knowledge: refunds.refund }",
    ),
    Mistake(
        "a tool of the standard library",
        AGENT_FILE,
        "refunds:refund",
        "os:system",
        "agents/critic.yaml:8:5: 'os:system' is in Python's standard library, which is not "
        "allowed here; write a class or function in the project folder that uses it",
    ),
    Mistake(
        "two tools of one name",
        AGENT_FILE,
        "refunds:refund",
        "{knowledge: docs, name: search_faq}",
        "agents/critic.yaml:9:5: agent 'critic' has two tools 'search_faq'; the first is at "
        "agents/critic.yaml:8:5; give this one another 'name'",
    ),
    Mistake(
        "a schema that is none",
        AGENT_FILE,
        "{type: object}",
        "{type: objct}",
        "agents/critic.yaml:10:17: output_schema is not a valid JSON Schema: 'objct' at $.type "
        "is not one of array, boolean, integer, null, number, object, string",
    ),
    Mistake(
        "a reference to nothing in a schema",
        AGENT_FILE,
        "{type: object}",
        "{$ref: '#/$defs/answer'}",
        "agents/critic.yaml:10:17: output_schema is not a valid JSON Schema: there is no "
        "'#/$defs/answer' in it",
    ),
    Mistake(
        "a scope without a name",
        WORKFLOW_FILE,
        "{{ .env.DATA }}",
        "{{ .env }}",
        "workflows/triage.yaml:20:5: {{ .env }} does not name a variable; write {{ .env.NAME }}",
    ),
    Mistake(
        "an unknown input",
        WORKFLOW_FILE,
        ".input.lines.0",
        ".input.line.0",
        "workflows/triage.yaml:17:5: {{ .input.line.0 }} is not defined: .input has no "
        "'line'; did you mean 'lines'; known: lines, question; declare it below input:",
    ),
    Mistake(
        "an unknown workflow variable",
        WORKFLOW_FILE,
        ".workflow.vars.tone",
        ".workflow.vars.tune",
        "workflows/triage.yaml:20:5: {{ .workflow.vars.tune }} is not defined: "
        ".workflow.vars has no 'tune'; did you mean 'tone'; known: deep, made, tone",
    ),
    Mistake(
        "a task that comes later",
        WORKFLOW_FILE,
        "{{ .workflow.vars.deep.er }}",
        "{{ .tasks.second.output }}",
        "workflows/triage.yaml:17:5: {{ .tasks.second.output }} is not defined: task 'second' "
        "cannot come before 'first'; known: none",
    ),
    Mistake(
        "a key of a value that has none",
        WORKFLOW_FILE,
        ".vars.deep.er }}",
        ".vars.deep.er.x }}",
        "workflows/triage.yaml:17:5: {{ .workflow.vars.deep.er.x }} is not defined: "
        ".workflow.vars.deep.er is of type int and has no 'x'",
        hides=("deep.er",),
    ),
    Mistake(
        "a malformed template",
        WORKFLOW_FILE,
        "{{ .tasks.first.output.topic }}",
        "{{ tasks.first }}",
        "workflows/triage.yaml:21:5: {{ tasks.first }} is not a template; write {{ "
        ".scope.name }}, for example {{ .env.NAME }}",
    ),
    Mistake(
        "a template that is not closed",
        WORKFLOW_FILE,
        "{{ .tasks.first.output.topic }}",
        "{{ .tasks.first",
        "workflows/triage.yaml:21:5: a template is opened by '{{' but not closed; end it with '}}'",
    ),
]
