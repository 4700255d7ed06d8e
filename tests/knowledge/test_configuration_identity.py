"""Declarations are written as YAML without changes, and read back as the same declarations."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jsonschema
import yaml
from hypothesis import HealthCheck, given, settings

from lorebind_config.declarations.schema import json_schema
from lorebind_config.editing.yaml_text import as_yaml
from lorebind_config.reading.loaded import LoadedProject
from lorebind_config.reading.loading import build_project, load_project
from tests.density import examples

from .declared import ENVIRON, project_data


def load(text: str) -> LoadedProject:
    with TemporaryDirectory() as folder:
        (Path(folder) / "lorebind.yaml").write_text(text, encoding="utf-8", newline="")
        return load_project(folder, environ=ENVIRON)


@settings(max_examples=examples(50), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=project_data())
def test_yaml_to_model_to_yaml_is_the_identity(data: dict[str, Any]) -> None:
    """For every kind of declaration, no key is lost, added, renamed or converted."""
    loaded = load(as_yaml(data))
    written = loaded.project.written()
    assert written == data
    again = load(as_yaml(written))
    assert again.project == loaded.project
    assert again.workflows == loaded.workflows
    assert again.agents == loaded.agents
    assert as_yaml(again.project.written()) == as_yaml(written)
    built = build_project(data, root=Path(), environ=ENVIRON)
    assert built.project == loaded.project


@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=project_data())
def test_declarations_are_taken_for_what_they_declare(data: dict[str, Any]) -> None:
    """A project built from the declarations of another project is the same project."""
    project = load(as_yaml(data)).project
    fields = {name: getattr(project, name) for name in project.model_fields_set}
    assert build_project(fields, root=Path(), environ=ENVIRON).project == project


OTHER_NAMES = """\
name: p
vector_dbs:
  - { id: q, type: qdrant, config: { dsn: "http://host:6333" } }
knowledge_bases:
  - { id: docs, sources: [{ type: file_glob, path: a.md }] }
knowledge: [{ id_ref: docs, top_k: null, retrieval: null }]
"""


def test_other_names_of_a_key_are_written_as_the_first() -> None:
    """Alternative keys such as `id_ref` and `dsn` are written as the main key; nulls stay."""
    project = load(OTHER_NAMES).project
    data = yaml.safe_load(OTHER_NAMES)
    data["vector_dbs"][0]["config"] = {"url": "http://host:6333"}
    data["knowledge"] = [{"id": "docs", "top_k": None, "retrieval": None}]
    assert project.written() == data
    assert load(as_yaml(project.written())).project == project


def test_what_names_a_declaration_is_written_first() -> None:
    """The id and then the key that chooses the kind come first, whatever the order in the file."""
    text = "name: p\nembedders: [{config: {dimension: 64}, provider: hashing, id: words}]\n"
    (embedder,) = load(text).project.written()["embedders"]
    assert list(embedder) == ["id", "provider", "config"]


VALIDATOR = jsonschema.Draft202012Validator(json_schema("project"))


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=project_data())
def test_what_loads_is_valid_by_the_schema(data: dict[str, Any]) -> None:
    """The JSON Schema accepts every project that loads, for all kinds of declarations."""
    assert [error.message for error in VALIDATOR.iter_errors(data)] == []
