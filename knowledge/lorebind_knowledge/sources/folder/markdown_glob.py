"""The source `markdown_glob`: Markdown files of the project."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from lorebind_knowledge.sources.folder.files import GlobSource, make_files

if TYPE_CHECKING:
    from lorebind_knowledge.sources.base import Source
    from lorebind_knowledge.sources.environment import SourceEnvironment


class MarkdownGlobSource(GlobSource):
    """Markdown files of the project folder."""

    in_folder: ClassVar[str] = "**/*.{md,markdown,mdx}"

    type: Literal["markdown_glob"] = Field(description="Markdown files, by pattern.")


Declaration = MarkdownGlobSource


def make(declaration: MarkdownGlobSource, environment: SourceEnvironment) -> Source:
    return make_files(declaration, declaration.type, environment)
