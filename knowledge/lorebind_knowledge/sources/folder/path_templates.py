"""Templates in patterns, as in `path: "{{ .env.DOCS }}/*.md"`; each stands for a folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from posixpath import normpath
from typing import TYPE_CHECKING, Any

from lorebind_config import templates
from lorebind_config.declarations.values import leaves_project
from lorebind_config.errors import SourceError
from lorebind_config.templates import TracedText

if TYPE_CHECKING:
    from lorebind_config.templates import Reference
    from lorebind_knowledge.sources.base import Source, SourceItem
    from lorebind_knowledge.sources.make import SourceEnvironment

_WILDCARD = re.compile(r"[*?\[{]")
_EDGES = r"/*?\[\]{},()|"
_BESIDE_LEFT = re.compile(rf"(?P<edge>[{_EDGES}]|^)(?P<text>[^{_EDGES}]*)$")
_BESIDE_RIGHT = re.compile(rf"(?P<text>[^{_EDGES}]*)(?P<edge>[{_EDGES}]|$)")
"""The text next to a template, up to the next wildcard or the end of the name."""


class TemplatedFiles:
    """Files that match patterns with templates, which are resolved when the files are listed.

    The key and the uris show templates instead of their values. So they do not change with the
    values, and a source whose templates have no value keeps its key.
    """

    def __init__(
        self,
        files: Callable[..., Source],
        patterns: Sequence[str],
        exclude: Sequence[str],
        environment: SourceEnvironment,
    ) -> None:
        """`files` makes the source of files from patterns, patterns to exclude, and how messages
        show a uri."""
        self._files = files
        self._listed: Any = None
        self._patterns = list(patterns)
        self._exclude = list(exclude)
        self._environment = environment
        self.key = files(patterns, exclude).key
        self.notices: list[str] = []

    def items(self) -> Iterator[SourceItem]:
        """Yield all documents.

        Raises:
            SourceError: a template has no value, or its value is not a folder of the project, or
                is a folder that cannot be listed.
        """
        filled = [_Filled(text, "path", self._environment) for text in self._patterns]
        exclude = [_Filled(text, "exclude", self._environment) for text in self._exclude]
        files = self._files(
            [glob.pattern for glob in filled],
            [glob.pattern for glob in exclude],
            partial(_public_uri, patterns=filled),
        )
        for item in files.items():
            for pattern in filled:
                if item.unlisted and pattern.is_shown_otherwise(item.uri):
                    raise SourceError(f"{pattern.written} cannot be listed: {item.unlisted}")
            uri = _public_uri(item.uri, filled)
            # The format of the file cannot be determined from such a uri.
            if uri != item.uri and uri.endswith("}}") and not item.skipped:
                raise SourceError(
                    f"path: {uri} is a file; use a template for its folder, or for its name "
                    f"without the extension, and write the rest after it, as in {uri}.md"
                )
            yield item._replace(uri=uri)
        self.notices = getattr(files, "notices", [])
        self._listed = files, filled

    def restore(self, token: bytes) -> SourceItem:
        """Return a listed item; see `SourceItem.token`."""
        files, filled = self._listed
        item: SourceItem = files.restore(token)
        return item._replace(uri=_public_uri(item.uri, filled))


class _Filled:
    """A pattern with resolved templates."""

    def __init__(self, written: str, field: str, environment: SourceEnvironment) -> None:
        self.written, self._field, self._environment = written, field, environment
        self.start = self.shown_start = ""
        """Common start of the paths of all its files, as it is and as it is shown."""
        self.within: list[tuple[str, str, str]] = []
        """Values of variables after the first wildcard.

        Each is a regular expression that matches it, its text, and the text as it is shown.
        """
        self.is_plain = True
        """Whether it has no wildcard."""
        try:
            parts = list(templates.parts(written))
        except templates.TemplateError as error:
            raise SourceError(f"{field}: {error}") from error
        self._parts = parts
        self.pattern = "".join(self._part(number, part) for number, part in enumerate(parts))
        unescaped = "".join(part if isinstance(part, str) else self._name(part) for part in parts)
        if leaves_project(unescaped):
            raise SourceError(f"{field}: {written} leads out of the project folder")
        self.start = self.start.removeprefix("./")

    def is_shown_otherwise(self, folder: str) -> bool:
        """Return whether files of a folder above the common start have uris that hide the folder.

        The path of a folder ends with `/`.
        """
        is_above = self.start.startswith(folder) and self.start != folder
        return is_above and not self.shown_start.startswith(folder)

    def _part(self, number: int, part: str | Reference) -> str:
        """Return the pattern for a part."""
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
            self.shown_start += templates.for_display(name)
        elif isinstance(name, TracedText):
            self._note_within(number, name)
        is_magic = glob.is_magic(name, flags=glob.GLOBSTAR | glob.BRACE)
        return glob.escape(str(name)) if is_magic else str(name)

    def _note_within(self, number: int, name: TracedText) -> None:
        """Record a value after the first wildcard, with the text next to it in the same name."""
        before, after = (
            self._parts[beside] if 0 <= beside < len(self._parts) else "/"
            for beside in (number - 1, number + 1)
        )
        left = _BESIDE_LEFT.search(before) if isinstance(before, str) else None
        right = _BESIDE_RIGHT.match(after) if isinstance(after, str) else None
        text = f"{left['text'] if left else ''}{name}{right['text'] if right else ''}"
        as_shown = text.replace(str(name), name.display)
        starts = "(?<![^/])" if left and left["edge"] == "/" else ""
        ends = "(?![^/])" if right and right["edge"] == "/" else ""
        self.within.append((starts + re.escape(text) + ends, text, as_shown))

    def _name(self, reference: Reference) -> str:
        """Return the folder that a template resolves to."""
        template = templates.as_template(reference)
        try:
            value = self._environment.value(reference)
        except templates.TemplateError as error:
            raise SourceError(f"{self._field}: {error}") from error
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            kind = type(value).__name__
            raise SourceError(
                f"{self._field}: {template}: expected text, got a value of type {kind}"
            )
        text = value if isinstance(value, str) else str(value)
        if not text:
            raise SourceError(f"{self._field}: {template} is empty; expected text")
        if leaves_project(text):
            raise SourceError(
                f"{self._field}: {template} is a path outside of the project folder; set it to "
                "a folder that is relative to the project folder, without '..'"
            )
        name = normpath(text.replace("\\", "/"))  # in the form of the paths of the files below it
        if not isinstance(text, TracedText):
            return name
        self._environment.secrets[name] = text.display
        return TracedText(name, text.display, {name: text.display})


def _public_uri(uri: str, patterns: Sequence[_Filled]) -> str:
    """Return a uri with templates instead of the values of variables."""
    head, rest = "", uri
    for pattern in patterns:
        below = f"{pattern.start}/" if pattern.is_plain else pattern.start
        if pattern.start != pattern.shown_start and (uri == pattern.start or uri.startswith(below)):
            head, rest = pattern.shown_start, uri[len(pattern.start) :]
            break
    within = [value for pattern in patterns for value in pattern.within]
    if not within:
        return head + rest
    texts = {text: as_shown for _, text, as_shown in within}
    values = "|".join(expression for expression, *_ in within)
    return head + re.sub(values, lambda match: texts[match[0]], rest)
