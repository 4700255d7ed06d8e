"""`sparse_embedders:` and `sparse:`, and the objects that are made from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from lorebind_config.declarations.embedders import SparseEmbedderDeclaration
from lorebind_config.declarations.schema import json_schema
from lorebind_config.editing.resources import export_resources
from lorebind_config.errors import ConfigurationError
from lorebind_config.reading.loaded import LoadedProject
from lorebind_config.reading.loading import build_project, load_project
from lorebind_config.trust import read_demands
from lorebind_knowledge import KnowledgeService
from lorebind_knowledge.embedders.sparse.base import embed_query
from lorebind_knowledge.embedders.sparse.local import LocalSparseEmbedder

LOCAL = {"id": "minilm", "provider": "local"}
HASHING = {"id": "words", "provider": "hashing"}
LIGHT = {"id": "light", "provider": "local", "config": {"min_weight": 1.5}}


def project(root: Path, **settings: Any) -> LoadedProject:
    """Build a project whose only knowledge base has the settings that are no keys of projects."""
    top = {
        name: settings.pop(name) for name in ("embedders", "sparse_embedders") if name in settings
    }
    return build_project(
        {"name": "p", "knowledge_bases": [{"id": "docs", **settings}], **top}, root=root
    )


def used(loaded: LoadedProject) -> SparseEmbedderDeclaration | None:
    return loaded.sparse_embedder(loaded.knowledge_base("docs")[0])


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "local"),
        ({"embedders": [LOCAL]}, "local"),
        ({"embedders": [HASHING]}, None),
        ({"embedders": [LOCAL, HASHING], "embedder": "words"}, None),
        ({"embedders": [HASHING], "sparse": "local"}, "local"),
        ({"sparse": "off"}, None),
        ({"sparse": False}, None),
        ({"sparse": "light", "sparse_embedders": [LIGHT]}, "light"),
        ({"sparse_embedders": [LIGHT]}, "local"),
    ],
)
def test_the_sparse_embedder_of_a_knowledge_base(
    settings: dict[str, Any], expected: str | None, tmp_path: Path
) -> None:
    """Only those with the local embedder have one by default; `sparse` chooses another."""
    declared = used(project(tmp_path, **settings))
    assert (declared and declared.id) == expected


def test_a_declared_local_replaces_the_built_in_one(tmp_path: Path) -> None:
    """A sparse embedder with the id `local` is the one that knowledge bases use by default."""
    declared: Any = used(project(tmp_path, sparse_embedders=[{**LIGHT, "id": "local"}]))
    assert declared.config.min_weight == 1.5


def test_off_without_quotes(tmp_path: Path) -> None:
    """YAML reads `off` as false, which is the same setting; it is exported as text."""
    text = "name: p\nknowledge_bases:\n  - { id: docs, sparse: off }\n"
    (tmp_path / "lorebind.yaml").write_text(text, encoding="utf-8")
    loaded = load_project(tmp_path)
    assert used(loaded) is None
    assert export_resources(loaded)["knowledge_bases"] == [{"id": "docs", "sparse": "off"}]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sparse": "lite", "sparse_embedders": [LIGHT]}, "uses unknown sparse embedder 'lite'"),
        ({"sparse": "nothing"}, "known: local, off"),
        ({"sparse": True}, "sparse"),
        ({"sparse_embedders": [LIGHT, LIGHT]}, "sparse embedder id 'light' is used twice"),
        ({"sparse_embedders": [{**LIGHT, "id": "off"}]}, "'off' cannot be the id"),
        ({"sparse_embedders": [{**LIGHT, "provider": "lokal"}]}, "did you mean 'local'"),
        ({"sparse_embedders": [{**LIGHT, "config": {"min_weight": -1}}]}, "min_weight is -1"),
    ],
)
def test_mistakes(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    """Unknown references, repeated ids and invalid settings are reported."""
    with pytest.raises(ConfigurationError, match=message):
        project(tmp_path, **settings)


def test_a_store_that_others_fill_has_no_terms(tmp_path: Path) -> None:
    """`sparse` has no effect for a knowledge base that Lorebind does not ingest."""
    database = {"id": "theirs", "type": "langchain", "class": "a:B", "existing": True}
    data = {"name": "p", "vector_dbs": [database], "knowledge_bases": [{"id": "docs"}]}
    assert used(build_project(data, root=tmp_path)) is None
    data["knowledge_bases"] = [{"id": "docs", "sparse": "local"}]
    with pytest.raises(ConfigurationError, match="filled by others, so sparse has no effect"):
        build_project(data, root=tmp_path)


def test_schema() -> None:
    """The JSON Schema accepts `sparse: off` in both forms, and sparse embedders."""
    validator = Draft202012Validator(json_schema("project"))
    for value, valid in [("off", True), (False, True), ("light", True), (True, False), (5, False)]:
        data = {"name": "p", "knowledge_bases": [{"id": "docs", "sparse": value}]}
        assert validator.is_valid(data) == valid
    assert validator.is_valid({"name": "p", "sparse_embedders": [LIGHT]})
    assert not validator.is_valid({"name": "p", "sparse_embedders": [{**LIGHT, "model": "x"}]})


def test_a_file_of_its_own(tmp_path: Path) -> None:
    """A resource file can declare a sparse embedder; an export names what a base uses."""
    text = "name: p\nautoload: { include: ['*.sparse.yaml'] }\n"
    text += "knowledge_bases:\n  - { id: docs, sparse: light }\n  - { id: other }\n"
    (tmp_path / "lorebind.yaml").write_text(text, encoding="utf-8")
    lines = "resource: sparse_embedder\nid: light\nprovider: local\nconfig: { min_weight: 1.5 }\n"
    (tmp_path / "light.sparse.yaml").write_text(lines, encoding="utf-8")
    loaded = load_project(tmp_path)
    assert [item.id for item in loaded.used_sparse_embedders()] == ["local", "light"]
    assert export_resources(loaded, "docs")["sparse_embedders"] == [LIGHT]
    assert "sparse_embedders" not in export_resources(loaded, "other")


def test_a_model_outside_of_the_project_needs_trust(tmp_path: Path) -> None:
    """A path that leads out of the project folder is a requirement of its trust."""
    root = tmp_path / "project"
    root.mkdir()
    text = "name: p\nsparse_embedders:\n"
    text += "  - { id: s, provider: local, config: { model_path: ../model.onnx } }\n"
    (root / "lorebind.yaml").write_text(text, encoding="utf-8")
    (requirement,) = read_demands(root).all
    assert requirement.by == "sparse embedder 's'"


async def test_equal_declarations_share_one_embedder(tmp_path: Path) -> None:
    """Knowledge bases with the same declaration share one object, of the declared settings."""
    kbs = [{"id": "a"}, {"id": "b"}, {"id": "c", "sparse": "light"}, {"id": "d", "sparse": "off"}]
    data = {"name": "p", "knowledge_bases": kbs, "sparse_embedders": [LIGHT]}
    service = KnowledgeService(build_project(data, root=tmp_path))
    first, second, third, last = (service.open(kb["id"]).kb.sparse for kb in kbs)
    inner: Any = [getattr(sparse, "inner", None) for sparse in (first, second, third)]
    assert inner[0] is inner[1]
    assert isinstance(inner[2], LocalSparseEmbedder)
    assert last is None
    assert third is not None
    assert (await embed_query(third, "install")).ids.size > 1
    assert "min_weight 1.5" in third.fingerprint.revision
