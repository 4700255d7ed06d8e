"""The declaration in a pack, for a project that does not declare its knowledge base."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lorebind_config.errors import UsageError
from lorebind_config.reading.loading import build_project
from lorebind_config.trust import demands_of

_SECTIONS = ("embedders", "sparse_embedders")


def declaration_to_add(
    packed: object, kb_id: str, there: Mapping[str, Any], shown_as: str
) -> dict[str, Any]:
    """Return the resources of a pack that a project lacks, as `apply` accepts them.

    The knowledge base gets the project's default vector database.

    Args:
        packed: the declaration in the pack's manifest.
        kb_id: the id that the knowledge base gets.
        there: the resources that the project has, as `export` returns them.
        shown_as: the pack, in messages.

    Raises:
        ConfigurationError: the declaration is not valid.
        UsageError: it would run code, send variables, or read files outside of the project.
    """
    resources = packed if isinstance(packed, Mapping) else {}
    declared = resources.get("knowledge_bases")
    if not (isinstance(declared, list) and len(declared) == 1 and isinstance(declared[0], Mapping)):
        raise UsageError(f"{shown_as}: declares no knowledge base; declare {kb_id!r} yourself")
    kb = {key: value for key, value in declared[0].items() if key != "vector_db"} | {"id": kb_id}
    sections = {name: resources[name] for name in _SECTIONS if resources.get(name)}
    with tempfile.TemporaryDirectory() as root:
        data = {"name": "packed", **sections, "knowledge_bases": [kb]}
        demands = demands_of(build_project(data, root=Path(root))).all
    if needed := [demand for demand in demands if not demand.stays]:
        wants = "; ".join(f"{demand.by} wants to {demand.wants} {demand.what}" for demand in needed)
        raise UsageError(
            f"{shown_as}: its declaration needs trust: {wants}; declare {kb_id!r} in lorebind.yaml "
            "yourself, then unpack again"
        )
    missing = {
        name: [item for item in items if item.get("id") not in _ids(there, name)]
        for name, items in sections.items()
    }
    return {name: items for name, items in missing.items() if items} | {"knowledge_bases": [kb]}


def _ids(resources: Mapping[str, Any], section: str) -> set[str]:
    return {item["id"] for item in resources.get(section, [])}
