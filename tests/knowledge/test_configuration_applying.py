"""`export` prints the resources of a project, and `apply` changes those and nothing else."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from lorebind_config.editing.applying import apply_resources
from lorebind_config.editing.resources import export_resources
from lorebind_config.editing.yaml_text import as_yaml
from lorebind_config.errors import ConfigurationError, NotFoundError, UsageError
from lorebind_config.reading.loading import load_project
from tests.density import examples

from .yaml_styles import SECTIONS, Styled, projects, resources

PROJECT = """\
name: demo  # ours
embedders:
  - id: words
    provider: hashing
    config: {dimension: 64}  # small
  - {id: cloud, provider: openai, api_key: "{{ .env.KEY }}"}
knowledge_bases:
  # the handbook
  - id: docs
    embedder: words
    sources: [{type: markdown_glob, path: "docs/*.md"}]
    description: |
      What we know.
  - id: notes
    sources: [{type: file_glob, paths: [notes/*]}]
knowledge: [{id: docs}]
"""
ENVIRON = {"KEY": "hidden-value"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    file = tmp_path / "lorebind.yaml"
    file.write_text(PROJECT)
    return file


def apply(project: Path, text: str, **how: Any) -> Any:
    return apply_resources(project, text, "new.yaml", environ=ENVIRON, **how)


@settings(max_examples=examples(60), deadline=None)
@given(before=projects(), update=resources())
def test_applying_puts_in_what_is_given_and_no_more(
    before: Styled, update: dict[str, list[dict[str, Any]]]
) -> None:
    """In every style of YAML, the given entries are applied and all other bytes stay."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "lorebind.yaml"
        file.write_bytes(before.text.encode())
        applied = apply(file, as_yaml(update) if update else "{}")
        after = file.read_bytes().decode()
        project = load_project(file).project
    touched, actions = set(), []
    for section in SECTIONS:
        there = {entry["id"]: entry for entry in before.data.get(section) or []}
        updates = {entry["id"]: entry for entry in update.get(section, [])}
        entries = [entry.written() for entry in getattr(project, section)]
        assert entries == list((there | updates).values())
        for name, entry in updates.items():
            same = there.get(name) == entry
            action = "unchanged" if same else "updated" if name in there else "created"
            actions.append((section, name, action))
            touched |= set() if same else {f"{section}/{name if name in there else ''}"}
    assert [(change.section, change.id, change.action) for change in applied.changes] == actions
    assert before.pattern(touched).fullmatch(after)
    assert applied.written == bool(touched) == bool(applied.diff)


@settings(max_examples=examples(40), deadline=None)
@given(before=projects())
def test_what_was_exported_changes_nothing(before: Styled) -> None:
    """A project to which its own export is applied keeps every byte."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "lorebind.yaml"
        file.write_bytes(before.text.encode())
        data = export_resources(load_project(file))
        applied = apply(file, as_yaml(data) if data else "{}")
        assert file.read_bytes() == before.text.encode()
    assert (applied.written, applied.diff) == (False, "")
    assert {change.action for change in applied.changes} <= {"unchanged"}


def test_export_keeps_what_was_written(project: Path) -> None:
    """An export keeps templates and omits defaults."""
    data = export_resources(load_project(project, environ=ENVIRON))
    read = yaml.safe_load(PROJECT)
    assert data == {key: read[key] for key in ("embedders", "knowledge_bases")}
    assert "hidden-value" not in as_yaml(data)


def test_export_of_one(project: Path) -> None:
    """A knowledge base is exported with the embedder and database it uses, if declared."""
    loaded = load_project(project, environ=ENVIRON)
    data = export_resources(loaded, "notes")
    assert {section: [entry["id"] for entry in some] for section, some in data.items()} == {
        "embedders": ["words"],
        "knowledge_bases": ["notes"],
    }
    with pytest.raises(NotFoundError, match="'docz'; did you mean 'docs'"):
        export_resources(loaded, "docz")


WORKFLOW = """\
# Sorts what comes in.
id: triage
knowledge_bases:
  - { id: docs, sources: [{ type: file_glob, path: own/* }] }  # not the project's
tasks: [{ id: say, prompt: Hello }]
"""
ONE = """\
resource: knowledge_base
id: docs
sources: [{ type: markdown_glob, path: new/*.md }]
"""


@pytest.fixture
def with_workflow(project: Path) -> Path:
    file = project.parent / "workflows" / "triage.yaml"
    file.parent.mkdir()
    file.write_text(WORKFLOW)
    project.write_text(PROJECT + "autoload: { include: ['workflows/*.yaml'] }\n")
    return project


def test_one_resource(project: Path) -> None:
    """A single resource of any kind can be applied, and its problems have its own line numbers."""
    (change,) = apply(project, ONE).changes
    assert (change.section, change.id, change.action) == ("knowledge_bases", "docs", "updated")
    assert load_project(project, environ=ENVIRON).knowledge_base("docs")[0].written() == {
        "id": "docs",
        "sources": [{"type": "markdown_glob", "path": "new/*.md"}],
    }
    apply(project, "resource: vector_db\nid: m\ntype: memory\n")
    (change,) = apply(project, "resource: embedder\nid: words\nprovider: local\n").changes
    assert change.action == "updated"
    with pytest.raises(ConfigurationError, match=r"^new\.yaml:3:1: unknown key 'sourcs'"):
        apply(project, ONE.replace("sources", "sourcs"))
    with pytest.raises(ConfigurationError, match=r"^new\.yaml:1:1: resource 'agent' cannot be a"):
        apply(project, "resource: agent\nid: a\n")
    kinds = "embedder, sparse_embedder, vector_db, knowledge_base"
    with pytest.raises(ConfigurationError, match="missing key 'resource'; .* one of: " + kinds):
        apply(project, "id: m\ntype: memory\n")


def test_into_a_workflow(with_workflow: Path) -> None:
    """The workflow's file is edited. The project's knowledge base with the same id stays."""
    before = with_workflow.read_text()
    file = with_workflow.parent / "workflows" / "triage.yaml"
    applied = apply(with_workflow, "workflow: triage\n" + ONE)
    assert [change.action for change in applied.changes] == ["updated"]
    assert applied.diff.startswith(
        "--- workflows/triage.yaml\n+++ workflows/triage.yaml with new.yaml\n"
    )
    new = "{id: docs, sources: [{type: markdown_glob, path: new/*.md}]}"
    old = "{ id: docs, sources: [{ type: file_glob, path: own/* }] }"
    assert file.read_text() == WORKFLOW.replace(old, new)
    assert with_workflow.read_text() == before
    assert os.listdir(file.parent) == ["triage.yaml"]
    loaded = load_project(with_workflow, environ=ENVIRON)
    exported = export_resources(loaded, "docs", "triage")
    assert exported["workflow"] == "triage"
    assert [kb["sources"][0]["path"] for kb in exported["knowledge_bases"]] == ["new/*.md"]
    assert not apply(with_workflow, as_yaml(exported)).written
    assert export_resources(loaded, workflow="triage") == exported
    assert "workflow" not in export_resources(loaded, "notes", "triage")


@pytest.mark.parametrize(
    ("text", "error", "problem"),
    [
        ("workflow: triag\n" + ONE, NotFoundError, "'triag'; did you mean 'triage'"),
        (
            "workflow: triage\nresource: knowledge_base\nid: own\nembedder: gone\n"
            "sources: [{ type: file_glob, path: own/* }]\n",
            ConfigurationError,
            r"workflows/triage\.yaml with new\.yaml:\d+:\d+: .* unknown embedder 'gone'",
        ),
        ("workflow: 5\n" + ONE, ConfigurationError, r"^new\.yaml:1:1: workflow: expected text"),
        (
            "workflow: triage\nvector_dbs: [{ id: m, type: memory }]\nknowledge_bases:\n"
            "  - { id: own, sources: [{ type: file_glob, path: own/* }] }\n",
            UsageError,
            r"would change lorebind\.yaml and triage\.yaml, but only one file can be changed",
        ),
    ],
)
def test_what_cannot_be_taken_into_a_workflow(
    with_workflow: Path, text: str, error: type[Exception], problem: str
) -> None:
    """The problem is reported, and both files stay as they are."""
    before = with_workflow.read_text()
    with pytest.raises(error, match=problem):
        apply(with_workflow, text)
    assert with_workflow.read_text() == before
    assert (with_workflow.parent / "workflows/triage.yaml").read_text() == WORKFLOW


def test_a_workflow_within_the_project(project: Path) -> None:
    """The lists of a nested workflow cannot be edited, so the error gives its position."""
    project.write_text(PROJECT + "workflows: [{ id: w, tasks: [{ id: say, prompt: Hello }] }]\n")
    with pytest.raises(UsageError, match=r"'w' is declared in lorebind\.yaml:17:13; change its"):
        apply(project, "workflow: w\n" + ONE)


def test_what_get_prints(project: Path) -> None:
    """Only the declaration in the output of `get` counts, and unknown keys are refused."""
    kb = load_project(project, environ=ENVIRON).knowledge_base("docs")[0]
    printed = {
        "workflow": None,
        "knowledge_base": kb.written(),
        "with_defaults": kb.model_dump(mode="json", by_alias=True),
        "stats": {"chunks": 3},
        "stats_error": None,
    }
    assert [change.action for change in apply(project, as_yaml(printed)).changes] == ["unchanged"]
    assert project.read_text() == PROJECT
    edited = "stats: {chunks: 3}\nknowledge_base:\n  id: notes\n  sources: 1\n"
    with pytest.raises(ConfigurationError, match=r"^new\.yaml:4:3: sources: expected a list"):
        apply(project, edited)
    with pytest.raises(ConfigurationError, match=r"^new\.yaml:5:1: unknown key 'embedders'"):
        apply(project, edited + "embedders: []\n")


def test_comments_stand_where_they_stood(project: Path) -> None:
    """A replaced entry keeps its style, and its neighbors stay as they are."""
    applied = apply(project, "embedders: [{id: cloud, provider: local}]\n")
    old = '{id: cloud, provider: openai, api_key: "{{ .env.KEY }}"}'
    assert project.read_text() == PROJECT.replace(old, "{id: cloud, provider: local}")
    changed = [line for line in applied.diff.splitlines()[2:] if line[0] in "+-"]
    assert changed == [f"-  - {old}", "+  - {id: cloud, provider: local}"]


def test_a_dry_run_writes_nothing_and_shows_the_difference(project: Path) -> None:
    """The file keeps its bytes and modification time, and the diff names both sides."""
    before = project.stat()
    applied = apply(project, "vector_dbs: [{id: m, type: memory}]\n", dry_run=True)
    assert project.read_text() == PROJECT
    assert project.stat() == before
    assert not applied.written
    assert [change.action for change in applied.changes] == ["created"]
    assert applied.diff.splitlines() == [
        "--- lorebind.yaml",
        "+++ lorebind.yaml with new.yaml",
        "@@ -14,3 +14,7 @@",
        "   - id: notes",
        "     sources: [{type: file_glob, paths: [notes/*]}]",
        " knowledge: [{id: docs}]",
        "+",
        "+vector_dbs:",
        "+  - id: m",
        "+    type: memory",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "knowledge_bases:\n  - id: docs\n    embeder: words\n    sources: []\n",
            "new.yaml:3:5: unknown key 'embeder'; did you mean 'embedder'",
        ),
        ("name: other\n", "new.yaml:1:1: unknown key 'name'"),
        ("- id: a\n", "new.yaml:1:1: expected a mapping of keys at the top of the file"),
        ("", "new.yaml:1:1: the file is empty"),
        (
            "embedders:\n  - {id: a, provider: local}\n  - {id: a, provider: hashing}\n",
            "new.yaml:3:6: embedder id 'a' is used twice",
        ),
        (
            "knowledge_bases: [{id: n, embedder: wrds, "
            "sources: [{type: markdown_glob, path: a.md}]}]\n",
            "lorebind.yaml with new.yaml:",
        ),
        (
            "embedders: [{id: words, provider: openai, api_key: '{{ .env.NOT_SET }}'}]",
            "variable NOT_SET is not set",
        ),
    ],
)
def test_what_is_not_valid_leaves_the_file(project: Path, text: str, problem: str) -> None:
    """Problems of the text and of the resulting project are reported with their positions."""
    with pytest.raises(ConfigurationError) as caught:
        apply(project, text)
    assert problem in str(caught.value)
    assert project.read_text() == PROJECT
    assert os.listdir(project.parent) == ["lorebind.yaml"]


SECRET = "sk-Zq8hidden"


@pytest.mark.parametrize(
    "text",
    [
        f"embedders: [{{id: cloud, provider: openai, api_key: {SECRET}}}]",
        f"embedders: [{{id: cloud, provider: openai, api_key: [{SECRET}]}}]",
        f"embedders: [{{id: c, provider: langchain, class: 'a:B', config: {{token: {SECRET}}}}}]",
        f"vector_dbs: [{{id: p, type: pgvector, config: {{dsn: 'postgresql://u:{SECRET}@h/d'}}}}]",
        f"embedders: [{{id: cloud, provider: openai, api_key: *{SECRET}}}]",
        f"embedders: [{{id: cloud, provider: openai, api_key: '{SECRET}}}]",
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_secret_is_refused_without_being_shown(project: Path, text: str, dry_run: bool) -> None:
    """A secret is not in the message, not in its cause, and not in the file."""
    with pytest.raises(ConfigurationError) as caught:
        apply(project, text, dry_run=dry_run)
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in f"{error} {error!r}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert project.read_text() == PROJECT


def test_a_project_that_is_not_valid_is_not_edited(project: Path) -> None:
    """Problems that the project already has are reported as problems of the project."""
    project.write_text(PROJECT + "knowlege: []\n")
    with pytest.raises(ConfigurationError, match=r"^lorebind\.yaml:17:1: unknown key 'knowlege'"):
        apply(project, "embedders: [{id: cloud, provider: local}]\n")


@pytest.mark.parametrize(
    "text",
    [
        "name: demo\nembedders: &all\n  - &w {id: words, provider: hashing}\n"
        "knowledge_bases: []\n...\n",
        "name: demo\nembedders:\n  - {id: words, provider: hashing}\nknowledge_bases: []\n"
        "description: |+\n  Kept.\n\n",
    ],
)
def test_what_cannot_be_edited_is_refused(project: Path, text: str) -> None:
    """If an edit would produce other data than expected, the file stays as it is."""
    project.write_text(text)
    with pytest.raises(UsageError, match=r"'vector_dbs' in lorebind\.yaml cannot be edited as"):
        apply(project, "vector_dbs: [{id: a, type: memory}, {id: b, type: sqlite}]\n")
    assert project.read_text() == text


def test_an_anchor_that_others_repeat_is_kept(project: Path) -> None:
    """Replacing a value that an alias repeats is refused, because it would change both."""
    text = (
        "name: demo\nembedders: [{id: words, provider: hashing}]\nknowledge_bases:\n"
        "  - id: a\n    sources: &s [{type: markdown_glob, path: a.md}]\n"
        "  - {id: b, sources: *s}\n"
    )
    project.write_text(text)
    new = "{id: a, sources: [{type: markdown_glob, path: b.md}]}"
    with pytest.raises(UsageError, match="cannot be edited"):
        apply(project, f"knowledge_bases: [{new}]\n")
    assert project.read_text() == text
    apply(project, f"knowledge_bases: [{new.replace('id: a', 'id: b')}]\n")
    assert load_project(project).knowledge_base("b")[0].sources[0].written()["path"] == "b.md"


def test_the_file_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    """A project file that is a link stays a link, and its target keeps its permissions."""
    (tmp_path / "real").mkdir()
    real = tmp_path / "real" / "shared.yaml"
    real.write_text(PROJECT)
    real.chmod(0o640)
    link = tmp_path / "lorebind.yaml"
    link.symlink_to(real)
    apply(tmp_path, "vector_dbs: [{id: m, type: memory}]\n")
    assert link.is_symlink()
    assert "id: m" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert os.listdir(tmp_path / "real") == ["shared.yaml"]


def test_the_draft_of_a_writer_that_was_killed_goes(project: Path) -> None:
    """The next call removes the draft of a killed process, even if it writes nothing itself."""
    draft = project.parent / ".lorebind.yaml.draft"
    outside = project.parent / "outside"
    outside.write_text("kept")
    draft.symlink_to(outside)
    apply(project, "vector_dbs: []\n")
    draft.write_text("half of a")
    apply(project, "vector_dbs: [{id: m, type: memory}]\n")
    assert "id: m" in project.read_text()
    assert outside.read_text() == "kept"
    assert sorted(os.listdir(project.parent)) == ["lorebind.yaml", "outside"]


def test_a_dry_run_waits_for_nobody(project: Path) -> None:
    """A dry run reads the file even while another process holds the lock."""
    with project.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        report = apply(project, "vector_dbs: [{id: m, type: memory}]\n", dry_run=True)
    assert (report.written, [change.action for change in report.changes]) == (False, ["created"])


def test_the_file_is_replaced_in_one_step(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the last step fails, the old file is still complete and no draft is left."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(UsageError, match="No space left on device; it is unchanged"):
        apply(project, "vector_dbs: [{id: m, type: memory}]\n")
    assert project.read_text() == PROJECT
    assert os.listdir(project.parent) == ["lorebind.yaml"]
