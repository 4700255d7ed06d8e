"""The public names of the packages: a griffe extension, and those that have no docstring."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "config": "lorebind_config",
    "knowledge": "lorebind_knowledge",
    "prompts": "lorebind_prompts",
    "bindings": "lorebind_bindings",
    "app": "lorebind",
}


class RedundantAliases(griffe.Extension):
    """Treat `from module import name as name` as public, as type checkers do."""

    def on_alias_instance(self, *, node: Any, alias: griffe.Alias, **_: Any) -> None:
        """Mark an import that repeats its name."""
        names = node.names if isinstance(node, ast.ImportFrom) else ()
        if any(alias.name == name.name == name.asname for name in names):
            alias.public = True


def undocumented() -> list[str]:
    """Return the paths of exported names, and of their methods, that have no docstring."""
    loader = griffe.GriffeLoader(
        extensions=griffe.Extensions(RedundantAliases()),
        search_paths=[ROOT / folder for folder in FOLDERS],
    )
    packages = [loader.load(package) for package in FOLDERS.values()]
    loader.resolve_aliases()
    missing = {path for package in packages for path in _undocumented(package)}
    return sorted(missing)


def _undocumented(package: griffe.Object | griffe.Alias) -> Iterator[str]:
    for exported in package.members.values():
        if not (isinstance(exported, griffe.Alias) and exported.is_public):
            continue
        target = exported.final_target
        if not target.has_docstring:
            yield target.path
        if target.is_class:
            for member in target.members.values():
                is_method = member.is_function and not member.name.startswith("_")
                if is_method and not member.has_docstring:
                    yield member.path
