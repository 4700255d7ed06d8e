"""Built-in kinds: found by their words, as plugins are, and imported when selected."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args

import pytest

from lorebind_config import plugins
from lorebind_config.declarations.places import MEMBERS, PLACES, Place, kind_words
from lorebind_config.declarations.project import ProjectDeclaration

KINDS = [(place, word) for place in PLACES.values() for word in place.built_in]
HEAVY = ("langchain_core", "numpy", "onnxruntime", "openai", "psycopg", "qdrant_client")


def modules_after(code: str) -> set[str]:
    """Return the modules that a fresh interpreter has imported after running code."""
    code += "\nimport sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    return set(done.stdout.split())


def test_every_group_has_its_place() -> None:
    """All groups of plugins are places in the YAML, except those that no file names."""
    assert ProjectDeclaration.model_fields
    assert {*PLACES, "loaders", "commands"} == set(get_args(plugins.Group))


@pytest.mark.parametrize(("place", "word"), KINDS, ids=lambda one: getattr(one, "group", one))
def test_every_word_names_a_kind(place: Place, word: str) -> None:
    """Every built-in kind passes the checks for plugins."""
    kind = place.kind(word)
    assert all(hasattr(kind, name) for name in MEMBERS)
    assert word in kind_words(kind.Declaration)


def test_declarations_are_light() -> None:
    """Validating a file imports no library that only the created objects need."""
    every = [module for place in PLACES.values() for module in place.built_in.values()]
    ours = [module for module in every if module.startswith("lorebind_knowledge.")]
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
    kinds = {module for place, word in KINDS for module in [place.built_in[word]]}
    assert kinds.intersection(modules_after(code)) == {
        "lorebind_knowledge.embedders.hashing",
        "lorebind_knowledge.stores.sqlite",
    }
