"""Environments where stand-ins hide the optional packages that a text does not install."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_PIP = re.compile(r"pip install ([^`\n]+)")
_STAND_IN = "raise ModuleNotFoundError(f'No module named {__name__!r}', name=__name__)\n"
_OURS = {"lorebind": ".", "langchain-lorebind": "integrations/langchain-lorebind"}
"""Folders of distributions; what is installed of them may be older than their files."""
_FOR_DEVELOPERS = ("all", "bench", "community", "dev", "docs")


def to_install(text: str) -> set[str]:
    """Return the requirements of the `pip install` commands of a text."""
    words = (word for line in _PIP.findall(text) for word in shlex.split(line))
    return {word for word in words if not word.startswith("-")}


def missing_modules(requirements: Iterable[str]) -> list[str]:
    """Return the modules of all extras that the requirements do not install with Lorebind."""
    installed = {name for text in ("lorebind", *requirements) for name in _installs(text)}
    missing = _optional() - installed
    return [
        module
        for module, owners in _owners().items()
        if owners & missing and not owners & installed
    ]


def hide(modules: Iterable[str], folder: Path) -> None:
    """Write the stand-ins of modules into a new folder."""
    folder.mkdir()
    for module in modules:
        (folder / f"{module}.py").write_text(_STAND_IN)


@cache
def _installs(requirement: str) -> frozenset[str]:
    """Return the names of the distributions that a requirement installs."""
    requirements = set()
    waiting = [Requirement(requirement)]
    while waiting:
        this = waiting.pop()
        if (key := str(this)) not in requirements:
            requirements.add(key)
            waiting += _requires(this)
    return frozenset(canonicalize_name(Requirement(text).name) for text in requirements)


def _requires(requirement: Requirement) -> Iterator[Requirement]:
    if requirement.name in _OURS:
        project = _project(requirement.name)
        lines = [*project["dependencies"]]
        for extra in requirement.extras:
            lines += project["optional-dependencies"][extra]
    else:
        try:
            lines = metadata.requires(requirement.name) or []
        except metadata.PackageNotFoundError:
            lines = []
    extras = ("", *requirement.extras)
    for needed in map(Requirement, lines):
        if not needed.marker or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
            needed.marker = None
            yield needed


@cache
def _project(name: str) -> dict[str, Any]:
    file = Path(__file__).parents[2] / _OURS[name] / "pyproject.toml"
    project: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    return project


@cache
def _optional() -> set[str]:
    """Return the names of the distributions that only extras of Lorebind install."""
    extras = _project("lorebind")["optional-dependencies"].keys() - set(_FOR_DEVELOPERS)
    requirement = Requirement(f"lorebind[{','.join(extras)}]")
    return {canonicalize_name(require.name) for require in _requires(requirement)}


@cache
def _owners() -> dict[str, set[str]]:
    """Return the names of the distributions that have each module."""
    owners = metadata.packages_distributions()
    return {module: set(map(canonicalize_name, names)) for module, names in owners.items()}
