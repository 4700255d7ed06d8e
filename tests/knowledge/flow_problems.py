"""The problems of workflow files."""

from __future__ import annotations

from pathlib import Path

from lorebind_config.errors import ConfigurationError
from lorebind_config.reading.loading import load_project


def problems(root: Path, *workflows: str) -> list[str]:
    """Return the problems of a project with these workflow files, without the file names."""
    (root / "w").mkdir(exist_ok=True)
    (root / "lorebind.yaml").write_text("name: p\nautoload: { include: ['w/*.yaml'] }\n")
    for number, text in enumerate(workflows):
        (root / "w" / f"{number}.yaml").write_text(text)
    try:
        load_project(root, environ={})
    except ConfigurationError as error:
        return [str(problem).partition(":")[2] for problem in error.problems]
    return []
