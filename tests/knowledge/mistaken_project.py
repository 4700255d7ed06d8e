"""A project in which mistakes are planted, and the definition of a mistake."""

from __future__ import annotations

import re
from dataclasses import dataclass

PROJECT = """\
name: support
description: What customers ask
embedders:
  - id: tests
    provider: hashing
    config: {dimension: 64}
  - id: remote
    provider: langchain
    class: "langchain_openai:OpenAIEmbeddings"
    api_key: "{{ .env.EMBEDDER_KEY }}"
    config: {retries: 3, headers: {authorization: "Bearer {{ .secrets.TOKEN }}"}}
vector_dbs:
  - id: file
    type: sqlite
    config: {path: "{{ .env.DATA }}/x.db"}
  - {id: scratch, type: memory}
knowledge_bases:
  - id: docs
    description: The handbook
    embedder: tests
    vector_db: file
    sources:
      - {type: file_glob, paths: ["docs/*"], exclude: ["docs/old*"]}
      - {type: markdown_glob, path: "more/*.md"}
    chunking: {size: 400, overlap: 40}
    retrieval: {top_k: 8, min_score: 0.1}
    metadata: {tags: [a, b], year: 2024}
  - id: faq
    embedder: remote
    sources: [{type: markdown_glob, path: "faq/*.md"}]
knowledge:
  - id: docs
    max_tokens: 2000
models:
  - id: big
    provider: openai
    model: gpt-x
    api_key: "{{ .env.OPENAI_API_KEY }}"
    config: {temperature: 0}
agents:
  - id: helper
    model: big
    instructions: Help.
    knowledge: [{id: faq}]
autoload:
  include: ["agents/*.yaml", "workflows/*.yaml"]
"""

CRITIC = """\
resource: agent
id: critic
instructions: Criticise.
knowledge:
  - id: docs
    top_k: 3
tools:
  - refunds:refund
  - {knowledge: faq, top_k: 2}
output_schema: {type: object}
"""

TRIAGE = """\
id: triage
version: "1.0"
input:
  question: {description: What the customer asks.}
  lines: {type: array, required: false}
vars: {tone: kind, deep: {er: 1}, made: "{{ .workflow.input.question }}"}
knowledge_bases:
  - id: own
    sources: [{type: markdown_glob, path: "own/*.md"}]
knowledge:
  - {id: own}
agents:
  - {id: local, knowledge: [{id: own}]}
tasks:
  - id: first
    agent: critic
    prompt: "{{ .workflow.input.question }} {{ .input.lines.0 }} {{ .workflow.vars.deep.er }}"
  - id: second
    agent: local
    prompt: "{{ .tasks.first.output }}: {{ .workflow.vars.tone }}, {{ .env.DATA }}"
    query: "{{ .tasks.first.output.topic }}"
    knowledge: [{id: docs, retrieval: {top_k: 2}}]
outputs: {answer: "{{ .tasks.second.output }}"}
"""

REPLY = """\
id: reply
tasks:
  - {id: only, agent: helper, prompt: Write a reply.}
"""

SORT = """\
id: sort
input: {letter: {}}
channels: {seen: {reducers: ["own:first"]}}
tasks:
  - {id: look, type: python, call: "own:look", with: {letter: "{{ .input.letter }}"},
     on_success: {next: kind}, on_error: {next: [sorry]}}
  - {id: kind, type: router, condition: tasks.look.output.kind,
     routes: {many: each, none: [ask]}, default: sorry}
  - id: each
    type: collection
    items: "{{ .tasks.look.output.parts }}"
    filter: index < 9 && item == tasks.look.output.skip
    task: {id: part, prompt: "{{ .item }}", update: {seen: "{{ .output }}"}}
    on_success: {next: ask}
  - id: both
    type: parallel
    branches:
      - {id: left, prompt: "{{ .tasks.ask.output }}", final: true}
      - [{id: right, prompt: Sum up.}, {id: further, prompt: "{{ .tasks.right.output }}"}]
    final: true
  - {id: ask, type: wait, prompt: "Go on.", schema: {type: object}, on_success: {next: both}}
  - {id: sorry, prompt: "{{ .error.message }}", final: true}
"""

FILES = {
    "lorebind.yaml": PROJECT,
    "agents/critic.yaml": CRITIC,
    "workflows/triage.yaml": TRIAGE,
    "workflows/reply.yaml": REPLY,
    "workflows/sort.yaml": SORT,
}

ENVIRON = {"EMBEDDER_KEY": "k", "TOKEN": "t", "DATA": "data", "OPENAI_API_KEY": "k"}


@dataclass(frozen=True)
class Mistake:
    """A text that replaces another one, and the only problem that results."""

    kind: str
    file: str
    old: str
    new: str
    problem: str
    hides: tuple[str, ...] = ()
    """Files and kinds of declarations whose problems this mistake can hide."""

    @property
    def message(self) -> str:
        """The problem without its hint and its position, which another mistake can change."""
        return self.problem.split(" ", 1)[1].split(";")[0]

    @property
    def start(self) -> int:
        return FILES[self.file].index(self.old)

    @property
    def entry(self) -> tuple[str, int]:
        """The top-level key of the file, or the list item, that contains the mistake."""
        return self.file, len(re.findall(r"^(?:  - |\w)", FILES[self.file][: self.start + 4], re.M))

    def independent_of(self, other: Mistake) -> bool:
        """Check whether both mistakes are reported when they are made together."""
        hidden = {*self.hides} & {other.file, *other.hides} or self.file in other.hides
        return not hidden and self.entry != other.entry


def mistaken(*mistakes: Mistake) -> dict[str, str]:
    """Return the files of the project with these mistakes, replaced from the last to the first."""
    files = dict(FILES)
    for mistake in sorted(mistakes, key=lambda mistake: -mistake.start):
        text, start = files[mistake.file], mistake.start
        files[mistake.file] = text[:start] + mistake.new + text[start + len(mistake.old) :]
    return files


PROJECT_FILE, AGENT_FILE = "lorebind.yaml", "agents/critic.yaml"
WORKFLOW_FILE, OTHER_FILE = "workflows/triage.yaml", "workflows/reply.yaml"
GRAPH_FILE = "workflows/sort.yaml"
