"""The bindings in effect at a place, and where each of their settings was set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lorebind_bindings import Provenance, ResolvedBinding, bind, override_settings
from lorebind_config.declarations.retrieval import RetrievalDeclaration
from lorebind_config.errors import NotFoundError, UsageError
from lorebind_config.reading.loaded import LoadedProject
from lorebind_config.reading.loading import load_project
from tests.bindings.helpers import resolve

from .helpers import line_of, write

PROJECT = """\
name: shop
knowledge_bases:
  - id: policies
    sources: [{ type: markdown_glob, path: "docs/*.md" }]
    retrieval:
      top_k: 11
      max_tokens: 900
      filters: { team: shop }
  - id: faq
    sources: [{ type: markdown_glob, path: "faq/*.md" }]
  - id: news
    sources: [{ type: markdown_glob, path: "news/*.md" }]
knowledge:
  - id: policies
    top_k: 12
autoload: { include: ["workflows/*.yaml", "agents/*.yaml"] }
"""

WORKFLOW = """\
id: support
knowledge:
  - id: policies
    retrieval:
      top_k: 13
tasks:
  - id: triage
    agent: clerk
    prompt: Sort it.
    knowledge:
      - { id: faq }
      - id: policies
        top_k: 14
  - id: reply
    prompt: Answer it.
"""

AGENT = """\
resource: agent
id: clerk
knowledge:
  - id: news
  - id: policies
    top_k: 15
"""


def loaded(
    root: Path, project: str = PROJECT, workflow: str = WORKFLOW, agent: str = AGENT
) -> LoadedProject:
    files = {
        "lorebind.yaml": project,
        "workflows/support.yaml": workflow,
        "agents/clerk.yaml": agent,
    }
    return load_project(write(root, files), environ={})


def of(bindings: list[ResolvedBinding], kb_id: str = "policies") -> ResolvedBinding:
    (binding,) = [binding for binding in bindings if binding.id == kb_id]
    return binding


BELOW = ("project", "knowledge_base")

PLACES: list[tuple[dict[str, str], int, str, str, tuple[str, ...]]] = [
    ({}, 12, "project", "lorebind.yaml", BELOW[1:]),
    ({"workflow": "support"}, 13, "workflow/support", "workflows/support.yaml", BELOW),
    (
        {"workflow": "support", "task": "reply"},
        13,
        "workflow/support",
        "workflows/support.yaml",
        BELOW,
    ),
    (
        {"workflow": "support", "task": "triage"},
        15,
        "agent/clerk",
        "agents/clerk.yaml",
        ("task/triage", "workflow/support", *BELOW),
    ),
    ({"agent": "clerk"}, 15, "agent/clerk", "agents/clerk.yaml", BELOW),
]


@pytest.mark.parametrize(("place", "top_k", "scope", "file", "overrode"), PLACES)
def test_the_narrowest_scope_wins(
    tmp_path: Path,
    place: dict[str, str],
    top_k: int,
    scope: str,
    file: str,
    overrode: tuple[str, ...],
) -> None:
    """The value of the narrowest scope is in effect, with its location and overridden scopes."""
    binding = of(resolve(loaded(tmp_path), **place))
    assert binding.settings.top_k == top_k
    line = line_of(tmp_path / file, f"top_k: {top_k}")
    assert binding.provenance["top_k"] == Provenance(scope, file, line, overrode)


def test_a_task_overrides_its_workflow(tmp_path: Path) -> None:
    """A task's own binding overrides the workflow's, unless its agent overrides both."""
    quiet = "resource: agent\nid: clerk\n"
    binding = of(resolve(loaded(tmp_path, agent=quiet), workflow="support", task="triage"))
    assert binding.settings.top_k == 14
    line = line_of(tmp_path / "workflows/support.yaml", "top_k: 14")
    assert binding.provenance["top_k"] == Provenance(
        "task/triage", "workflows/support.yaml", line, ("workflow/support", *BELOW)
    )


def test_a_knowledge_base_in_a_file_of_its_own(tmp_path: Path) -> None:
    """The file and line of a knowledge base's own file are the location."""
    (tmp_path / "docs.yaml").write_text(
        "resource: knowledge_base\nid: docs\nsources: [{ type: markdown_glob, path: '*.md' }]\n"
        "retrieval: { top_k: 7 }\n"
    )
    (tmp_path / "lorebind.yaml").write_text(
        "name: shop\nknowledge: [{ id: docs }]\nautoload: { include: [docs.yaml] }\n"
    )
    (binding,) = resolve(load_project(tmp_path))
    assert binding.provenance["top_k"] == Provenance("knowledge_base", "docs.yaml", 4)


def test_a_knowledge_base_alone_has_its_own_settings(tmp_path: Path) -> None:
    """Without bindings, a knowledge base is searched with its own `retrieval`."""
    binding = bind(loaded(tmp_path), "policies")
    assert (binding.settings.top_k, binding.settings.max_tokens) == (11, 900)
    line = line_of(tmp_path / "lorebind.yaml", "top_k: 11")
    assert binding.provenance["top_k"] == Provenance("knowledge_base", "lorebind.yaml", line)
    assert binding.provenance["fallback"] == Provenance("default")


def test_what_no_scope_says_stays(tmp_path: Path) -> None:
    """A scope changes only the fields that it sets; the others keep their origin."""
    binding = of(resolve(loaded(tmp_path), workflow="support", task="triage"))
    assert binding.settings.max_tokens == 900
    assert binding.provenance["max_tokens"].scope == "knowledge_base"
    assert binding.settings.min_results == 1
    assert binding.provenance["min_results"] == Provenance("default")


def test_every_field_has_a_provenance(tmp_path: Path) -> None:
    """Every field has a provenance."""
    binding = of(resolve(loaded(tmp_path)))
    assert set(binding.provenance) == set(type(binding.settings).model_fields)


@pytest.mark.parametrize(
    "binding",
    [
        "  - { id: policies, min_score: 0.25 }",
        "  - { id: policies, retrieval: { min_score: 0.25 }}",
    ],
)
def test_flat_and_nested_mean_the_same(tmp_path: Path, binding: str) -> None:
    """An override next to the id means the same as one under `retrieval`."""
    bound = of(
        resolve(
            loaded(tmp_path, PROJECT + f"# more\nagents:\n- id: x\n  knowledge:\n{binding}"),
            agent="x",
        )
    )
    assert bound.settings.min_score == 0.25
    assert bound.settings.top_k == 12
    assert bound.provenance["min_score"].scope == "agent/x"
    assert bound.provenance["min_score"].line == line_of(tmp_path / "lorebind.yaml", "min_score")


@pytest.mark.parametrize(("field", "default"), [("max_tokens", None), ("top_k", 5)])
@pytest.mark.parametrize("binding", ["{field}: null", "retrieval: {{ {field}: null }}"])
def test_null_clears(tmp_path: Path, field: str, default: Any, binding: str) -> None:
    """An explicit null restores the default, and its scope is the origin."""
    workflow = f"""\
    id: support
    knowledge:
      - id: policies
        {binding.format(field=field)}
    tasks:
      - id: triage
        agent: clerk
        prompt: x
        knowledge: [{{ id: policies, min_results: 2 }}]
    """
    agent = "resource: agent\nid: clerk\n"
    bound = of(
        resolve(loaded(tmp_path, workflow=workflow, agent=agent), workflow="support", task="triage")
    )
    assert getattr(bound.settings, field) == default
    line = line_of(tmp_path / "workflows/support.yaml", field)
    place = bound.provenance[field]
    assert (place.scope, place.file, place.line) == (
        "workflow/support",
        "workflows/support.yaml",
        line,
    )


def test_what_was_cleared_can_be_set_again(tmp_path: Path) -> None:
    """A later scope can set a field that an earlier scope cleared."""
    workflow = WORKFLOW.replace("top_k: 13", "top_k: null")
    binding = of(resolve(loaded(tmp_path, workflow=workflow), workflow="support", task="triage"))
    assert binding.settings.top_k == 15


def test_maps_are_replaced(tmp_path: Path) -> None:
    """A map is replaced as a whole, never merged key by key."""
    workflow = WORKFLOW.replace("top_k: 13", "filters: { lang: [de, en] }")
    binding = of(resolve(loaded(tmp_path, workflow=workflow), workflow="support"))
    assert binding.settings.filters == {"lang": ["de", "en"]}
    assert binding.provenance["filters"].scope == "workflow/support"


def test_bindings_keep_the_order_of_their_first_appearance(tmp_path: Path) -> None:
    """A later scope adds bindings at the end, and does not move earlier ones."""
    bindings = resolve(loaded(tmp_path), workflow="support", task="triage")
    assert [binding.id for binding in bindings] == ["policies", "faq", "news"]


def test_a_named_agent_goes_over_the_tasks_own(tmp_path: Path) -> None:
    """The task's agent is used unless another agent is named."""
    project = PROJECT + "agents: [{ id: boss, knowledge: [{ id: policies, top_k: 16 }] }]\n"
    shop = loaded(tmp_path, project)
    assert of(resolve(shop, workflow="support", task="triage")).settings.top_k == 15
    assert of(resolve(shop, workflow="support", task="triage", agent="boss")).settings.top_k == 16


def test_a_workflows_knowledge_base_shadows_the_projects(tmp_path: Path) -> None:
    """In its workflow, a knowledge base replaces the project's one with the same id."""
    workflow = """\
    id: support
    knowledge_bases:
      - id: policies
        sources: [{ type: markdown_glob, path: "mine/*.md" }]
        retrieval: { min_score: 0.5 }
    tasks: [{ id: reply, prompt: x }]
    """
    project = loaded(tmp_path, workflow=workflow)
    inside, outside = of(resolve(project, workflow="support")), of(resolve(project))
    assert (inside.settings.min_score, inside.settings.max_tokens) == (0.5, None)
    assert inside.workflow == "support"
    line = line_of(tmp_path / "workflows/support.yaml", "min_score")
    place = Provenance("knowledge_base", "workflows/support.yaml", line)
    assert inside.provenance["min_score"] == place
    assert (outside.settings.min_score, outside.settings.max_tokens) == (None, 900)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ({"workflow": "suport"}, "there is no workflow 'suport'; did you mean 'support'"),
        ({"workflow": "support", "task": "triaje"}, "'triaje'; did you mean 'triage'"),
        ({"agent": "clark"}, "there is no agent 'clark'; did you mean 'clerk'"),
        ({"workflow": "support", "task": "triage", "agent": "clark"}, "did you mean 'clerk'"),
    ],
)
def test_unknown_places_are_named(tmp_path: Path, place: dict[str, str], message: str) -> None:
    """An unknown workflow, task or agent is an error that names it and the closest name."""
    with pytest.raises(NotFoundError, match=message):
        resolve(loaded(tmp_path), **place)


def test_an_unknown_knowledge_base_is_named(tmp_path: Path) -> None:
    """Binding an unknown knowledge base is an error that suggests the closest name."""
    with pytest.raises(NotFoundError, match="'polices'; did you mean 'policies'; known: faq"):
        bind(loaded(tmp_path), "polices")


def test_a_task_needs_its_workflow(tmp_path: Path) -> None:
    """A task without its workflow is an error."""
    with pytest.raises(UsageError, match="name the workflow too"):
        resolve(loaded(tmp_path), task="triage")


def test_overrides_are_validated_once_for_each_declaration() -> None:
    """The same numbers give the same settings again, but only for the same declared settings."""
    declared, other = RetrievalDeclaration(), RetrievalDeclaration(filters={"team": "ops"})
    chosen = override_settings(declared, strategy="similarity", top_k=1)
    assert override_settings(declared, strategy="similarity", top_k=1) is chosen
    assert override_settings(other, strategy="similarity", top_k=1).filters == other.filters
    with pytest.raises(UsageError, match="expected an integer, got the boolean"):
        override_settings(declared, strategy="similarity", top_k=True)
