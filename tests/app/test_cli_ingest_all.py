"""`lorebind ingest` and `lorebind knowledge plan` without an id: every knowledge base."""

from __future__ import annotations

import itertools
import json

from .helpers import PROJECT, Cli

GUIDES = """\
id: guides
input: { input: { type: string } }
vars: { folder: "guides/{{ .input.input }}" }
knowledge_bases:
  - { id: direct, sources: [{ type: file_glob, path: "guides/{{ .workflow.input.input }}/*.md" }] }
  - { id: fixed, sources: [{ type: file_glob, path: "guides/en/*.md" }] }
  - { id: named, sources: [{ type: file_glob, path: "{{ .workflow.vars.folder }}/*.md" }] }
tasks: [{ id: say, prompt: hello }]
"""
FILES = {"workflows/guides.yaml": GUIDES, "guides/en/a.md": "# A\n\nText of a.\n"}


def _broken(cli: Cli) -> None:
    lost = 'provider: hashing }, { id: lost, provider: langchain, class: "gone:Lost" }'
    broken = PROJECT.replace("provider: hashing }", lost)
    broken = broken.replace("- id: docs\n", "- id: docs\n    embedder: lost\n")
    cli.write({"lorebind.yaml": broken, "gone.py": "Lost = int\n"})


def test_a_failed_one_is_in_the_data(cli: Cli) -> None:
    """The JSON of an ingest of all has an entry with the reason for one that failed."""
    _broken(cli)
    done = cli("ingest", "-o", "json")
    reports = json.loads(done.out)
    assert done.code == 1
    assert [(report["kb_id"], report["status"]) for report in reports] == [
        ("docs", "failed"),
        ("rules", "completed"),
    ]
    assert "gone" in reports[0]["reason"]
    assert reports[0].keys() > reports[1].keys()


def test_a_plan_goes_on_after_a_failure(cli: Cli) -> None:
    """A plan of all includes the knowledge bases after one that failed, and exits with 1."""
    _broken(cli)
    done = cli("knowledge", "plan")
    assert done.code == 1
    assert done.out.splitlines()[:3:2] == [
        "docs:",
        "Plan: 1 document (1 new), 1 chunk, 1 to embed, 0 cached",
    ]
    assert "lorebind: docs: " in done.err
    docs, rules = json.loads(cli("knowledge", "plan", "-o", "json").out)
    assert (docs["kb_id"], docs["status"], rules["kb_id"]) == ("docs", "failed", "rules")


def test_the_name_is_above_the_plan(cli: Cli) -> None:
    """An ingest of all prints each name before its plan and its table."""
    cli.write(FILES)
    lines = cli("ingest").out.splitlines()
    names = [line for line, after in itertools.pairwise(lines) if after[:6] == "Plan: "]
    assert names == ["docs:", "rules:", "fixed of workflow guides:"]


def test_what_needs_an_input_is_skipped(cli: Cli) -> None:
    """Knowledge bases whose sources need an input are skipped with the command that has it."""
    cli.write(FILES)
    done = cli("ingest")
    assert done.code == 0
    for name in ("direct", "named"):
        command = f"lorebind knowledge ingest {name} --workflow guides --input input=…"
        assert f"note: {name} of workflow guides is skipped" in done.err
        assert done.err.count(command) == 1
    done = cli("ingest", "-w", "guides", "-i", "input=en", "-o", "json")
    assert [load["kb_id"] for load in json.loads(done.out)] == ["direct", "fixed", "named"]
    assert (done.code, done.err) == (0, "")


def test_a_missing_input_is_named(cli: Cli) -> None:
    """The reason of a source that lacks an input names the option, also through a variable."""
    cli.write(FILES)
    for name in ("direct", "named"):
        done = cli("ingest", name, "-w", "guides")
        assert done.code == 1
        assert "pass the input 'input': --input input=…, or inputs={'input': …}" in done.out


def test_the_workflow_of_a_knowledge_base_is_named(cli: Cli) -> None:
    """The id of a workflow's knowledge base, without the workflow, is refused with the option."""
    cli.write(FILES)
    done = cli("ingest", "fixed")
    assert done.code == 2
    assert "knowledge base 'fixed' belongs to workflow 'guides'" in done.err
    assert "--workflow guides" in done.err
