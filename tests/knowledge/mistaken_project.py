"""The project that mistakes are planted in."""

from __future__ import annotations

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

FILES = {
    "lorebind.yaml": PROJECT,
    "agents/critic.yaml": CRITIC,
    "workflows/triage.yaml": TRIAGE,
    "workflows/reply.yaml": REPLY,
}

ENVIRON = {"EMBEDDER_KEY": "k", "TOKEN": "t", "DATA": "data", "OPENAI_API_KEY": "k"}
