"""The YAML of the original technical specification loads unchanged, and works."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lorebind import Project
from tests.bindings.helpers import write
from tests.knowledge.embedding_server import embedding_server

PROJECT = """\
embedders:
  - id: openai_embedder
    provider: openai
    model: text-embedding-3-small
    api_key: "{{ .env.OPENAI_API_KEY }}"
    config:
      batch_size: 96

vector_dbs:
  - id: pgvector_main
    type: pgvector
    config:
      dsn: "{{ .secrets.PGVECTOR_DSN }}"
      table: knowledge_chunks
      ensure_index: true

knowledge_bases:
  - id: support_docs
    description: Customer support handbook
    embedder: openai_embedder
    vector_db: pgvector_main
    sources:
      - type: url
        urls:
          - "https://example.com/support.pdf"
      - type: markdown_glob
        path: "docs/support/**/*.md"
    chunking:
      strategy: recursive_text_splitter
      size: 800
      overlap: 120
    retrieval:
      top_k: 8
      min_score: 0.1
"""

WORKFLOW = """\
# workflows/support-assistant.yaml
id: support-assistant
version: 0.1.0

knowledge_bases:
  - id: wf_support_docs
    description: "Support playbook snippets"
    embedder: openai_embedder # references project-level embedder
    vector_db: pgvector_main # references project-level vector DB
    sources:
      - type: markdown_glob
        path: "./workflows/support/playbooks/*.md"
      - type: media_transcript
        provider: youtube
        video_id: "{{ .workflow.input.training_video_id }}"
    retrieval:
      top_k: 4
      inject_as: "{{ .workflow.vars.support_docs }}"

tasks:
  - id: triage_ticket
    type: basic
    agent: support_agent
    knowledge:
      - id: wf_support_docs
    # ...
"""

TASK = """\
tasks:
  - id: triage_ticket
    type: basic
    agent: support_agent
    knowledge:
      - id: wf_support_docs
        top_k: 3
"""

AGENT = """\
agents:
  - resource: agent
    id: support_agent
    instructions: |
      You are a support expert. Prefer sourced answers.
    knowledge:
      - id: support_docs
        inject_as: context_docs
        max_tokens: 1500
"""

NAME = "name: support\n"
INPUT = "input: { training_video_id: { type: string, required: false } }\n"
PROMPT = '    prompt: "Who is refunded? {{ .workflow.vars.support_docs }}"\n'
AUTOLOAD = "autoload: { include: [workflows/*.yaml] }\n"
"""The lines that complete the examples."""

FILES = {
    "lorebind.yaml": NAME + PROJECT + AGENT + AUTOLOAD,
    "workflows/support-assistant.yaml": WORKFLOW + PROMPT + INPUT,
    "docs/support/refunds.md": "# Refunds\n\nCustomers are refunded in full within 30 days.\n",
    "workflows/support/playbooks/anger.md": "# Anger\n\nSay what you do next, and by when.\n",
}
ENVIRONMENT = {"OPENAI_API_KEY": "sk-hidden", "PGVECTOR_DSN": "postgresql://hidden@localhost/x"}


@pytest.mark.parametrize(
    "workflow", [WORKFLOW + PROMPT + INPUT, "id: w\n" + TASK + PROMPT.replace(".workflow", ".none")]
)
def test_the_examples_load_as_they_stand(tmp_path: Path, workflow: str) -> None:
    """Project, workflow, task and agent are valid without changes."""
    kbs = WORKFLOW[WORKFLOW.index("knowledge_bases:") : WORKFLOW.index("tasks:")]
    if "knowledge_bases:" not in workflow:
        workflow = INPUT + kbs + workflow.replace("{{ .none.vars.support_docs }}", "")
    write(tmp_path, FILES | {"workflows/support-assistant.yaml": workflow})
    with Project.load(tmp_path, environ=ENVIRONMENT) as project:
        (name,) = project.config.workflows
        bindings = project.explain(workflow=name, task="triage_ticket")
    assert [binding.id for binding in bindings] == ["wf_support_docs", "support_docs"]
    assert bindings[0].settings.inject_as == "{{ .workflow.vars.support_docs }}"
    assert (bindings[1].settings.max_tokens, bindings[1].settings.top_k) == (1500, 8)
    assert bindings[0].settings.top_k == (3 if name == "w" else 4)


@pytest.fixture
def project(tmp_path: Path, dsn: str, socket_enabled: None) -> Iterator[Project]:
    """Return the same project with a local server instead of OpenAI's, and a real PostgreSQL."""
    with embedding_server() as server:
        here = f'      base_url: "{server.url}"\n      dimension: 8\n      batch_size: 96\n'
        text = FILES["lorebind.yaml"].replace("      batch_size: 96\n", here)
        write(tmp_path, FILES | {"lorebind.yaml": text})
        environment = {"OPENAI_API_KEY": "sk-hidden", "PGVECTOR_DSN": dsn}
        with Project.load(tmp_path, environ=environment) as project:
            yield project


def test_the_project_works(project: Project) -> None:
    """It ingests the reachable sources, names the others, and answers from the rest."""
    report = project.ingest("support_docs")
    assert (report.status, report.documents["added"]) == ("completed_with_failures", 1)
    assert [failure.uri for failure in report.failures] == ["https://example.com/support.pdf"]
    scoped: Any = project.ingest("wf_support_docs", workflow="support-assistant")
    assert scoped.documents["added"] == 1
    assert [source.status for source in scoped.sources] == ["ok", "failed"]
    assert "training_video_id" in scoped.sources[1].reason
    result = project.run("support-assistant")
    assert result.tasks["triage_ticket"].verdict in ("hit", "fallback")
    assert "sk-hidden" not in repr((report, scoped, result))
