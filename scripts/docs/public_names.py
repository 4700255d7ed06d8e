"""Find the public names of the packages that have no docstring."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import griffe

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "config": "lorebind_config",
    "knowledge": "lorebind_knowledge",
    "prompts": "lorebind_prompts",
    "bindings": "lorebind_bindings",
    "app": "lorebind",
}


def undocumented() -> list[str]:
    """Return the paths of exported names, and of their methods, that have no docstring."""
    loader = griffe.GriffeLoader(search_paths=[ROOT / folder for folder in FOLDERS])
    packages = [loader.load(package) for package in FOLDERS.values()]
    loader.resolve_aliases()
    missing = {path for package in packages for path in _undocumented(package)}
    return sorted(missing)


def _undocumented(package: griffe.Object | griffe.Alias) -> Iterator[str]:
    for name in package.exports or ():
        exported = package[str(name)]
        target = exported.final_target if exported.is_alias else exported
        if not target.has_docstring:
            yield target.path
        if target.is_class:
            for member in target.members.values():
                is_method = member.is_function and not member.name.startswith("_")
                if is_method and not member.has_docstring:
                    yield member.path
