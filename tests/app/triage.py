"""Workflows with a router, a collection, a question and a task that fails; they need no model."""

from __future__ import annotations

WORKFLOW = """\
id: triage
description: Sorts tickets.
input: { ticket: {} }
tasks:
  - { id: read, type: python, call: "steps:read", with: { ticket: "{{ .input.ticket }}" },
      on_success: { next: kind }, on_error: { next: apologise } }
  - { id: kind, type: router, condition: tasks.read.output.kind,
      routes: { question: answers, refund: approve }, default: apologise }
  - id: answers
    type: collection
    items: "{{ .tasks.read.output.questions }}"
    task: { id: answer, prompt: "{{ .input.ticket }}" }
    on_success: { next: reply }
  - { id: approve, type: wait, prompt: "Pay? {{ .input.ticket }}",
      schema: { type: object, required: [ok], properties: { ok: { type: boolean } } },
      on_success: { next: reply } }
  - { id: reply, type: aggregate, final: true,
      outputs: { answers: "{{ .tasks.answers.output }}", paid: "{{ .tasks.approve.output }}" } }
  - { id: apologise, prompt: "Apologise: {{ .input.ticket }}", final: true }
"""

STRICT = """\
id: strict
input: { ticket: {} }
tasks:
  - { id: first, type: python, call: "steps:count", with: { name: first } }
  - { id: read, type: python, call: "steps:read", with: { ticket: "{{ .input.ticket }}" } }
"""

STEPS = """\
import pathlib

def read(ticket):
    if ticket == "boom" and not pathlib.Path(__file__).with_name("mended").exists():
        raise ValueError("no ticket")
    kind = "refund" if "refund" in ticket else "question" if "?" in ticket else "other"
    return {"kind": kind, "questions": [one for one in ticket.split("?") if one.strip()]}

def count(name):
    with pathlib.Path(__file__).with_name("ran").open("a") as file:
        print(name, file=file)
"""

FILES = {
    "lorebind.yaml": 'name: support\nautoload: { include: ["workflows/*.yaml"] }\n',
    "workflows/triage.yaml": WORKFLOW,
    "workflows/strict.yaml": STRICT,
    "steps.py": STEPS,
}
