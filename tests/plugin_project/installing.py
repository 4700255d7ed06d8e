"""Install distributions into a folder as pip does: modules and their metadata."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

ACME = Path(__file__).with_name("acme_lore.py")

ACME_OFFERS = {
    "embedders": {"acme": "acme_lore:embedder"},
    "sparse_embedders": {"acme": "acme_lore:sparse_embedder"},
    "vector_dbs": {"acme": "acme_lore:vector_db"},
    "sources": {"acme_wiki": "acme_lore:source"},
    "loaders": {"acme": "acme_lore:loader"},
    "document_transforms": {"acme": "acme_lore:document_transform"},
    "chunkers": {"acme": "acme_lore:chunker"},
    "rerankers": {"acme": "acme_lore:reranker"},
    "tokenizers": {"acme": "acme_lore:tokenizer"},
    "extensions": {"acme": "acme_lore:extension"},
    "engines": {"acme": "acme_lore:engine"},
    "commands": {"acme-titles": "acme_lore:titles"},
}


def install(
    folder: Path,
    name: str,
    offers: Mapping[str, Mapping[str, str]],
    modules: Mapping[str, str] | None = None,
    version: str = "1.0",
) -> None:
    """Install a distribution with modules by name, and entry points by the end of their group."""
    folder.mkdir(parents=True, exist_ok=True)
    for module, text in (modules or {}).items():
        (folder / f"{module}.py").write_text(text, encoding="utf-8")
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    lines = []
    for group, entries in offers.items():
        lines.append(f"[lorebind.{group}]")
        lines += [f"{word} = {value}" for word, value in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def install_acme(folder: Path) -> None:
    """Install the distribution `acme-lore` with all its plugins."""
    install(folder, "acme-lore", ACME_OFFERS)
    shutil.copy(ACME, folder)
