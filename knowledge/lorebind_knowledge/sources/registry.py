"""From a declared source to the object that lists its documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.sources.files import FileSource

if TYPE_CHECKING:
    from pathlib import Path

    from lorebind_knowledge.declarations import SourceDeclaration
    from lorebind_knowledge.sources.base import Source


def make_source(declaration: SourceDeclaration, root: Path) -> Source:
    """The source that a declaration names, for a project in folder `root`."""
    return FileSource(declaration.type, declaration.patterns, root, exclude=declaration.exclude)
