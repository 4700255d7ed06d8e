"""Built-in kinds: found by their words, as plugins are, and imported when selected."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import get_args

import pytest

from lorebind_config import plugins
from lorebind_config.declarations.kinds import MEMBERS, REGISTRIES, KindRegistry, kind_words
from lorebind_config.declarations.project import ProjectDeclaration
from tests.processes import run_program

KINDS = [(place, word) for place in REGISTRIES.values() for word in place.built_in]
HEAVY = ("langchain_core", "numpy", "onnxruntime", "openai", "psycopg", "qdrant_client")


def words_of(code: str) -> set[str]:
    """Return the words that code prints in a fresh interpreter."""
    done = run_program([sys.executable, "-c", code], check=True)
    return set(done.stdout.split())


def modules_after(code: str) -> set[str]:
    """Return the modules that a fresh interpreter has imported after running code."""
    return words_of(f"{code}\nimport sys; print(*sys.modules)")


def test_every_group_has_its_place() -> None:
    """All groups of plugins are places in the YAML, except those that no file names."""
    assert ProjectDeclaration.model_fields
    assert {*REGISTRIES, "loaders", "commands", "engines"} == set(get_args(plugins.Group))


@pytest.mark.parametrize(("place", "word"), KINDS, ids=lambda kind: getattr(kind, "group", kind))
def test_every_word_names_a_kind(place: KindRegistry, word: str) -> None:
    """Every built-in kind passes the checks for plugins."""
    kind = place.kind(word)
    assert all(hasattr(kind, name) for name in MEMBERS)
    assert word in kind_words(kind.Declaration)


def test_declarations_are_light() -> None:
    """Validating a file imports no library that only the created objects need."""
    every = [place.built_in[word].partition(":")[0] for place, word in KINDS]
    ours = {module for module in every if module.startswith("lorebind_knowledge.")}
    assert not modules_after(f"import {', '.join(ours)}").intersection({*HEAVY, "sqlalchemy"})


def test_a_project_imports_what_it_names() -> None:
    """A project imports only the kinds that it names."""
    data = {
        "name": "p",
        "embedders": [{"id": "e", "provider": "hashing"}],
        "vector_dbs": [{"id": "v", "type": "sqlite"}],
    }
    code = (
        "from pathlib import Path; import lorebind\n"
        "from lorebind_config.reading.loading import build_project\n"
        f"build_project({data!r}, root=Path())"
    )
    kinds = {place.built_in[word].partition(":")[0] for place, word in KINDS}
    assert kinds.intersection(modules_after(code)) == {
        "lorebind_knowledge.embedders.hashing",
        "lorebind_knowledge.stores.sqlite",
    }


def test_a_validator_contains_that_of_no_other_declaration() -> None:
    """A validator is built when a file has a value for it, and most files use few of them."""
    ProjectDeclaration.model_rebuild()
    schema = repr(ProjectDeclaration.__pydantic_core_schema__)
    assert "WorkflowDeclaration" in schema
    assert schema.count("'type': 'model',") == 1


def test_the_valid_parts_of_a_file_are_read_before_any_validator_is_built() -> None:
    """Nested tasks are read as tasks, although their type is defined after the task around them."""
    code = (
        "from lorebind_config.declarations.workflows import WorkflowDeclaration\n"
        "from lorebind_config.reading.partial import partial\n"
        "from lorebind_config.reading.yaml_source import YamlSource\n"
        "task = {'id': 'a', 'type': 'parallel', 'branches': [[{'id': 'b', 'prompt': 'p'}]]}\n"
        "workflow = partial(WorkflowDeclaration, YamlSource('', {'id': 'w', 'tasks': [task]}))\n"
        "print(type(workflow.tasks[0].branches[0][0]).__name__)\n"
    )
    assert words_of(code) == {"BasicTask"}


def test_an_ingest_imports_no_library_that_embeds_and_a_search_no_ingest(tmp_path: Path) -> None:
    """An unchanged ingest only compares files, and a search reads what an ingest has stored."""
    (tmp_path / "a.md").write_text("One line.")
    project = {
        "name": "p",
        "embedders": [{"id": "e", "provider": "hashing"}],
        "knowledge_bases": [
            {"id": "docs", "sources": [{"type": "markdown_glob", "path": "*.md"}]},
        ],
    }
    code = (
        "from pathlib import Path; import lorebind, sys\n"
        "from lorebind_config.reading.loading import build_project\n"
        "from lorebind_knowledge.plumbing.bridge import run\n"
        "from lorebind_knowledge.ingest.engine import ingest\n"
        "from lorebind_knowledge.service import KnowledgeService\n"
        f"loaded = build_project({project!r}, root=Path({str(tmp_path)!r}))\n"
        "report = run(ingest(KnowledgeService(loaded).open('docs').corpus()))\n"
        "print(*(f'{count}-{name}' for name, count in report.documents.items() if count))\n"
    )
    assert words_of(code) == {"1-added"}
    modules = modules_after(code)
    assert "1-unchanged" in modules
    assert not modules.intersection(HEAVY)
    asked = modules_after(
        "from lorebind import Project\n"
        f"matches = Project.build({project!r}, root={str(tmp_path)!r}).query('docs', 'One line')\n"
        "print(*(match.text.replace(' ', '-') for match in matches))"
    )
    assert "One-line." in asked
    only_ingests = ("ingest", "transforms", "documents.changing", "loaders.registry", "scale")
    places = tuple(f"lorebind_knowledge.{name}" for name in only_ingests)
    assert not [module for module in asked if module.startswith(places)]
    assert [module for module in modules if module.startswith(places[0])]


def test_the_configuration_alone_has_no_kinds() -> None:
    """The error says what to import."""
    code = (
        "from pathlib import Path; from lorebind_config.reading.loading import build_project\n"
        "build_project({'name': 'p', 'embedders': [{'id': 'e', 'provider': 'local'}]}, root=Path())"
    )
    done = run_program([sys.executable, "-c", code])
    assert "RuntimeError: no kind is registered; import lorebind before" in done.stderr
