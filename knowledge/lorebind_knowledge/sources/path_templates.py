"""`path: "{{ .env.DOCS }}/*.md"`: a template in a pattern stands for a folder, not a pattern."""

from __future__ import annotations

import re
from dataclasses import replace
from posixpath import normpath
from typing import TYPE_CHECKING

from lorebind_knowledge.configuration import confided, templates
from lorebind_knowledge.configuration.confided import Confided
from lorebind_knowledge.declarations.values import leaves_project
from lorebind_knowledge.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lorebind_knowledge.configuration.templates import Reference
    from lorebind_knowledge.sources.base import SourceItem
    from lorebind_knowledge.sources.environment import SourceEnvironment
    from lorebind_knowledge.sources.files import FileSource

_WILDCARD = re.compile(r"[*?\[{]")


class TemplatedFiles:
    """Files by patterns with templates, which are filled in when the files are listed.

    The key, and what uris show of variables, is as it was written. So neither changes with the
    value, and a source whose templates stand for nothing is still known.
    """

    def __init__(
        self,
        files: Callable[[Sequence[str], Sequence[str]], FileSource],
        patterns: Sequence[str],
        exclude: Sequence[str],
        environment: SourceEnvironment,
    ) -> None:
        """
        Args:
            files: the source of files for patterns, and patterns to leave out.
            patterns: as they were written.
            exclude: likewise.
            environment: what the templates are filled in from.
        """
        self._files = files
        self._patterns = list(patterns)
        self._exclude = list(exclude)
        self._environment = environment
        self.key = files(patterns, exclude).key
        self.notices: list[str] = []

    def items(self) -> Iterator[SourceItem]:
        """
        Raises:
            SourceError: a template stands for nothing, or for no folder of the project.
        """
        filled = [_Filled(text, "path", self._environment) for text in self._patterns]
        exclude = [_Filled(text, "exclude", self._environment) for text in self._exclude]
        files = self._files([one.pattern for one in filled], [one.pattern for one in exclude])
        for item in files.items():
            yield replace(item, uri=_shown(item.uri, filled))
        self.notices = files.notices


class _Filled:
    """A pattern with its templates filled in."""

    def __init__(self, written: str, field: str, environment: SourceEnvironment) -> None:
        self._written, self._field, self._environment = written, field, environment
        self.start = self.shown_start = ""
        """What all its files begin with, as it is and as it is shown."""
        self.within: dict[str, str] = {}
        """Values of variables that come after a wildcard, each with its template."""
        self.is_plain = True
        """Whether it has no wildcard."""
        try:
            parts = list(templates.parts(written))
        except templates.TemplateError as error:
            raise SourceError(f"{field}: {error}") from error
        self.pattern = "".join(self._part(part) for part in parts)
        unescaped = "".join(part if isinstance(part, str) else self._name(part) for part in parts)
        if leaves_project(unescaped):
            raise SourceError(f"{field}: {written} leads out of the project folder")
        self.start = self.start.removeprefix("./")

    def _part(self, part: str | Reference) -> str:
        """What stands for a part in the pattern."""
        from wcmatch import glob

        if isinstance(part, str):
            literal = _WILDCARD.split(part, maxsplit=1)[0]
            if self.is_plain:
                self.start += literal
                self.shown_start += literal
            self.is_plain = self.is_plain and literal == part
            return part
        name = self._name(part)
        if self.is_plain:
            self.start += name
            self.shown_start += confided.shown(name)
        else:
            self.within |= confided.values_in(name)
        is_magic = glob.is_magic(name, flags=glob.GLOBSTAR | glob.BRACE)
        return glob.escape(str(name)) if is_magic else str(name)

    def _name(self, reference: Reference) -> str:
        """The folder that a template stands for."""
        shown = templates.shown(reference)
        try:
            value = self._environment.value(reference)
        except templates.TemplateError as error:
            raise SourceError(f"{self._field}: {error}") from error
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            kind = type(value).__name__
            raise SourceError(
                f"{self._field}: {shown} stands for a value of type {kind}, not a text"
            )
        text = value if isinstance(value, str) else str(value)
        if not text:
            raise SourceError(f"{self._field}: {shown} stands for an empty text")
        if leaves_project(text):
            raise SourceError(
                f"{self._field}: {shown} stands for a place outside of the project folder; set it "
                "to a folder that is relative to the project folder, without '..'"
            )
        name = normpath(text.replace("\\", "/"))  # as the files below it are called
        if not isinstance(text, Confided):
            return name
        self._environment.told[name] = text.shown
        return Confided(name, text.shown, {name: text.shown})


def _shown(uri: str, patterns: Sequence[_Filled]) -> str:
    """A uri with templates in place of the values of variables."""
    head, rest = "", uri
    for one in patterns:
        below = f"{one.start}/" if one.is_plain else one.start
        if one.start != one.shown_start and (uri == one.start or uri.startswith(below)):
            head, rest = one.shown_start, uri[len(one.start) :]
            break
    for value, template in {k: v for one in patterns for k, v in one.within.items()}.items():
        rest = rest.replace(value, template)
    return head + rest
