"""A project with workflows that need no network: questions, slow tasks, outages.

A slow task ends early if there is a file `awake` in the folder of the project.
"""

from __future__ import annotations

from pathlib import Path

from tests.app.triage import STEPS, WORKFLOW

PROJECT = """\
name: desk
embedders:
  - { id: words, provider: hashing }
models:
  - { id: quotes, provider: extractive }
  - { id: down, provider: openai, model: m,
      config: { base_url: "http://127.0.0.1:9/v1", api_key: "{{ .env.KEY }}", max_retries: 0 } }
knowledge_bases:
  - id: handbook
    ingest: on_start
    sources: [{ type: inline, documents: [{ id: returns, text: Return goods within 30 days. }] }]
  - id: empty
    sources: [{ type: inline, documents: [{ id: a, text: Nothing. }] }]
agents: [{ id: supporter, instructions: Answer. }]
autoload: { include: ["workflows/*.yaml"] }
"""

ANSWER = """\
id: answer
description: Answers from the handbook.
input: { question: {}, count: { type: integer, default: 3 } }
tasks:
  - { id: say, agent: supporter, prompt: "{{ .input.question }}", knowledge: [{ id: handbook }] }
"""

SLOW = """\
id: slow
input: { seconds: { type: number }, name: {} }
tasks:
  - { id: first, type: python, call: "steps:note", with: { name: "{{ .input.name }}" } }
  - { id: wait, type: python, call: "slow:sleep", with: { seconds: "{{ .input.seconds }}" } }
  - { id: last, type: python, call: "slow:surrogate" }
"""

SLEEP = """\
import pathlib, time

def sleep(seconds):
    awake = pathlib.Path(__file__).with_name("awake")
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and not awake.exists():
        time.sleep(min(left, 0.05))

def surrogate():
    return "\\ud800"
"""

NOTE = """

def note(name):
    with pathlib.Path(__file__).with_name("noted").open("a") as file:
        print(name, file=file)
    return name
"""

UNREADY = """\
id: unready
tasks: [{ id: say, prompt: What, knowledge: [{ id: empty }] }]
"""

MUTE = """\
id: mute
agents: [{ id: mute, instructions: Answer., model: down }]
tasks: [{ id: say, agent: mute, prompt: What }]
"""

BROKEN = """\
id: broken
tasks: [{ id: break, type: python, call: "steps:read", with: { ticket: boom } }]
"""


def write_desk(folder: Path) -> Path:
    files = {
        "lorebind.yaml": PROJECT,
        ".env": "KEY=k",
        "steps.py": STEPS + NOTE,
        "slow.py": SLEEP,
        "workflows/triage.yaml": WORKFLOW,
        "workflows/answer.yaml": ANSWER,
        "workflows/slow.yaml": SLOW,
        "workflows/unready.yaml": UNREADY,
        "workflows/mute.yaml": MUTE,
        "workflows/broken.yaml": BROKEN,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
