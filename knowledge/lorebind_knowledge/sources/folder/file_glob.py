"""The source `file_glob`: files of the project, in any format that a loader reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from lorebind_knowledge.sources.folder.files import GlobSource, make_files

if TYPE_CHECKING:
    from lorebind_knowledge.sources.base import Source
    from lorebind_knowledge.sources.environment import SourceEnvironment


class FileGlobSource(GlobSource):
    """Files of the project folder, in any supported format."""

    type: Literal["file_glob"] = Field(description="Files in any supported format, by pattern.")


Declaration = FileGlobSource


def make(declaration: FileGlobSource, environment: SourceEnvironment) -> Source:
    return make_files(declaration, declaration.type, environment)
