"""What is below a folder: the files that patterns match, and what is passed over on the way."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from lorebind_knowledge.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

EVERY_FILE = "**/*"
_GITIGNORE = ".gitignore"
_FOLDERS_OF_TOOLS = frozenset({"node_modules", "__pycache__"})
_VIRTUAL_ENVIRONMENT = "pyvenv.cfg"
"""The file that tells a virtual environment, whatever its folder is called."""
_LONGEST_GITIGNORE = 256 * 1024
_SLOW_RULE = re.compile(r"(?:[*?][^*?/]*){4}")
"""With so many wildcards in one name, comparing a single file could take minutes."""


class Found(NamedTuple):
    """A file to read, or a file or folder that is passed over."""

    name: str
    """Its path from the folder that is searched; a folder's ends with `/`."""
    skipped: str = ""
    """Why it is passed over, in a word or two; empty for a file to read."""
    named: bool = False
    """Whether a pattern without wildcards names it."""


def files_below(
    root: Path,
    patterns: Sequence[str],
    *,
    exclude: Sequence[str] = (),
    respect_gitignore: bool = True,
    in_folder: str = EVERY_FILE,
) -> list[Found]:
    """The files that any of the patterns matches, sorted by path.

    `**` crosses folders, `{md,txt}` are alternatives, and endings match in upper and lower case.
    Hidden files and folders are not looked at, and links to folders are not followed. What a
    `.gitignore` names, virtual environments, `node_modules` and `__pycache__` are passed over, but
    not a folder that a pattern names itself.

    Args:
        root: the folder to search.
        patterns: relative to it. One that names a folder means the files below that.
        exclude: patterns of files to leave out, without a word.
        respect_gitignore: heed `.gitignore` files, also those above `root` in the same repository.
        in_folder: which files of a folder that is named, as a pattern.

    Raises:
        SourceError: a folder cannot be listed.
    """
    excluded = matcher(exclude)
    by_folder: dict[str, list[str]] = {}
    found: dict[str, Found] = {}
    for pattern in _alternatives(patterns):
        folder, rest = _literal_folder(pattern)
        last = None if "/" in rest else _literal(rest)
        name = _join(folder, last or "")
        if last is not None and os.path.isdir(root / name):
            by_folder.setdefault(name, []).extend(_alternatives([in_folder]))
        elif last is not None and os.path.lexists(root / name):
            found[name] = Found(name, named=True)
        elif os.path.isdir(root / folder):
            by_folder.setdefault(folder, []).append(rest)
    for folder, rests in by_folder.items():
        rules = _rules_for(root, folder) if respect_gitignore else None
        for one in _Walk(root, folder, rests, rules).files():
            if one.name not in found or found[one.name].skipped:
                found[one.name] = one
    return [one for _, one in sorted(found.items()) if not excluded(one.name)]


class _Walk:
    """The files below one folder whose path from there matches any of some patterns."""

    def __init__(self, root: Path, folder: str, patterns: list[str], rules: _Rules | None) -> None:
        self._root, self._folder, self._rules = root, folder, rules
        self._matches = matcher(patterns)
        self._deepest = max(
            len(pattern.split("/")) if "**" not in pattern else 10**6 for pattern in patterns
        )
        self._hidden = any(
            part.startswith(".") for pattern in patterns for part in pattern.split("/")
        )

    def files(self) -> Iterator[Found]:
        waiting = [("", self._rules)]
        while waiting:
            below, rules = waiting.pop()
            folder = _join(self._folder, below)
            if rules is not None:
                rules = rules.with_those_of(self._root, folder)
            goes_on = below.count("/") + bool(below) + 1 < self._deepest
            for entry in _listed(self._root, folder):
                name = _join(below, entry.name)
                is_folder = entry.is_dir()
                if entry.name.startswith(".") and is_folder and not self._hidden:
                    continue
                if is_folder and not goes_on:
                    continue
                if not (is_folder or self._matches(name)):
                    continue
                shown = _join(self._folder, name) + "/" * is_folder
                if rules is not None and rules.ignore(shown):
                    yield Found(shown, _GITIGNORE)
                elif not is_folder:
                    yield Found(shown)
                elif why := _no_documents(entry):
                    yield Found(shown, why)
                else:
                    waiting.append((name, rules))


@dataclass(frozen=True, slots=True)
class _Rules:
    """The `.gitignore` files that hold for a folder."""

    above: str
    """The path from the top of the repository to the folder that is searched, with `/` behind."""
    files: tuple[tuple[str, Any], ...] = field(default=())
    """From the top down: the path of its folder from that top, with `/` behind, and its rules."""

    def ignore(self, name: str) -> bool:
        path = self.above + name
        for folder, rules in reversed(self.files):
            verdict = rules.check_file(path[len(folder) :]).include
            if verdict is not None:
                return bool(verdict)
        return False

    def with_those_of(self, root: Path, folder: str) -> _Rules:
        """These and the ones in the folder itself, if it has any."""
        rules = _read_rules(root / folder)
        if rules is None:
            return self
        place = self.above + (f"{folder}/" if folder else "")
        return _Rules(self.above, (*self.files, (place, rules)))


def _rules_for(root: Path, folder: str) -> _Rules:
    """What the folders above a folder say; rules that ignore the folder itself do not count."""
    root = root.resolve()
    top = next((one for one in (root, *root.parents) if (one / ".git").exists()), root)
    above = "" if top == root else f"{root.relative_to(top).as_posix()}/"
    meant = above + (f"{folder}/" if folder else "")
    files: list[tuple[str, Any]] = []
    place = ""
    for part in meant.split("/")[:-1]:
        rules = _read_rules(top / place)
        inside = meant[len(place) :]
        if rules is not None and not rules.check_file(inside).include:
            files.append((place, rules))
        place += f"{part}/"
    return _Rules(above, tuple(files))


def _read_rules(folder: Path) -> Any:
    """The rules of the `.gitignore` in a folder; None where there is none that can be read."""
    from pathspec import GitIgnoreSpec
    from pathspec.patterns.gitignore import GitIgnorePatternError

    file = folder / _GITIGNORE
    try:
        if not file.is_file():  # a pipe would be waited for
            return None
        with file.open(encoding="utf-8", errors="replace") as opened:
            lines = opened.read(_LONGEST_GITIGNORE).splitlines()
    except OSError:
        return None
    rules: list[Any] = []
    for line in lines:
        if not _SLOW_RULE.search(line):
            try:
                rules += GitIgnoreSpec.from_lines([line]).patterns
            except GitIgnorePatternError:  # git passes over such a line too
                continue
    return GitIgnoreSpec(rules)


def _listed(root: Path, folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(root / folder) as entries:
            return list(entries)
    except OSError as error:
        where = folder or root
        raise SourceError(f"{where}: cannot be listed: {error.strerror or error}") from error


def _no_documents(folder: os.DirEntry[str]) -> str:
    """Why the files of a folder are not documents; empty where they may be."""
    if folder.is_symlink():
        return "links to folders"
    if folder.name in _FOLDERS_OF_TOOLS:
        return folder.name
    is_environment = os.path.lexists(os.path.join(folder.path, _VIRTUAL_ENVIRONMENT))
    return "virtual environments" if is_environment else ""


def _alternatives(patterns: Sequence[str]) -> Iterator[str]:
    """Each pattern without braces, and without parts that say nothing."""
    import bracex

    for pattern in patterns:
        for one in bracex.expand(pattern, keep_escapes=True, limit=0):
            yield "/".join(part for part in one.split("/") if part not in ("", "."))


def _literal_folder(pattern: str) -> tuple[str, str]:
    """The folder that a pattern begins with, up to its first wildcard, and the rest."""
    *parts, last = pattern.split("/")
    literal: list[str] = []
    for part in parts:
        name = _literal(part)
        if name is None:
            break
        literal.append(name)
    return "/".join(literal), "/".join([*parts[len(literal) :], last])


def _literal(part: str) -> str | None:
    """What a part of a pattern names, None where it has a wildcard."""
    if re.search(r"[*?\[]", re.sub(r"\\.", "", part)):
        return None
    return re.sub(r"\\(.)", r"\1", part)


def matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Whether any of the patterns matches a path; without patterns, none does."""
    from wcmatch import glob

    if not patterns:
        return lambda _: False
    flags = glob.GLOBSTAR | glob.BRACE | glob.FORCEUNIX
    compiled = glob.compile([_lower_ending(one) for one in patterns], flags=flags, limit=0)
    return lambda name: bool(compiled.match(_lower_ending(name)))


def _lower_ending(text: str) -> str:
    """The name, or the pattern of one, with its ending in lower case."""
    before, dot, ending = text.rpartition(".")
    return text if "/" in ending else f"{before}{dot}{ending.lower()}"


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder and name else folder or name
