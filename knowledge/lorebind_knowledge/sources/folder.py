"""Find the files below a folder that match patterns, and what was skipped."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.sources.gitignore import GITIGNORE, rules_above

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from lorebind_knowledge.sources.gitignore import Rules

EVERY_FILE = "**/*"
_FOLDERS_OF_TOOLS = frozenset({"node_modules", "__pycache__"})
_VIRTUAL_ENVIRONMENT = "pyvenv.cfg"
"""A file that only virtual environments contain, whatever their folder is called."""


class Found(NamedTuple):
    """A file to read, or a file or folder that is skipped."""

    name: str
    """Path relative to the searched folder; a folder's path ends with `/`."""
    skipped: str = ""
    """Why it is skipped, in a word or two; empty for a file to read."""
    named: bool = False
    """Whether a pattern without wildcards names it."""


class Listing(NamedTuple):
    """The result of a search below a folder."""

    found: list[Found]
    """Sorted by name."""
    unmatched: list[str]
    """Patterns that match nothing."""
    notices: list[str]
    """Messages about rules of `.gitignore` files that are not applied."""


def files_below(
    root: Path,
    patterns: Sequence[str],
    *,
    exclude: Sequence[str] = (),
    respect_gitignore: bool = True,
    in_folder: str = EVERY_FILE,
    all_folders: bool = False,
) -> Listing:
    """Find the files that match any of the patterns.

    `**` crosses folders, `{md,txt}` are alternatives, and the case of extensions does not matter.
    Hidden files and folders match only a pattern that writes the dot, and links to folders are not
    followed. Skipped are: what a `.gitignore` excludes, virtual environments, `node_modules` and
    `__pycache__`. A folder that a pattern names is never skipped.

    Args:
        root: the folder to search.
        patterns: relative to `root`. A pattern that names a folder matches the files below it.
        exclude: patterns of files, or names of folders, to skip without reporting them.
        respect_gitignore: use `.gitignore` files, including those above `root` in its repository.
        in_folder: pattern of the files to find in a folder that a pattern names.
        all_folders: search virtual environments and folders of tools too.

    Raises:
        SourceError: a folder cannot be listed.
    """
    home = os.path.realpath(root)
    excluded = matcher(exclude, folders=True)
    by_folder: dict[str, dict[str, str]] = {}  # folder to pattern to pattern as written
    found: dict[str, Found] = {}
    matched: set[str] = set()
    notices: list[str] = []
    for written, pattern in _alternatives(patterns):
        folder, rest = _literal_folder(pattern)
        last = None if "/" in rest else _literal(rest)
        # A name may itself contain wildcard characters.
        for name in {pattern, _join(folder, last)} if last is not None else {pattern}:
            if os.path.isdir(root / name):
                below = by_folder.setdefault(name, {})
                below.update({one: written for _, one in _alternatives([in_folder])})
            elif os.path.lexists(root / name):
                found[name] = Found(name, named=True)
                matched.add(written)
        if last is None and os.path.isdir(root / folder):
            by_folder.setdefault(folder, {})[rest] = written
        elif last is not None and not os.path.lexists(root / folder / last):
            by_folder.setdefault(folder, {})[rest] = written  # its extension may be in upper case
    for folder, wanted in by_folder.items():
        if not (os.path.realpath(root / folder) + os.sep).startswith(os.path.join(home, "")):
            found[f"{folder}/"] = Found(f"{folder}/", "links out of the folder")
            continue
        if not os.path.isdir(root / folder):
            continue
        rules = rules_above(root, folder, notices) if respect_gitignore else None
        walk = _Walk(root, folder, list(wanted), rules, excluded, all_folders=all_folders)
        for one in walk.files():
            if one.name not in found or found[one.name].skipped:
                found[one.name] = one
        matched |= {wanted[pattern] for pattern in walk.matched}
    listed = [one for _, one in sorted(found.items()) if not excluded(one.name)]
    unmatched = [pattern for pattern in patterns if pattern not in matched]
    return Listing(listed, unmatched, notices)


class _Walk:
    """A search for the files below one folder whose path relative to it matches a pattern."""

    def __init__(
        self,
        root: Path,
        folder: str,
        patterns: list[str],
        rules: Rules | None,
        excluded: Callable[[str], bool],
        *,
        all_folders: bool,
    ) -> None:
        self.matched: set[str] = set()
        """Patterns that have matched a file so far."""
        self._root, self._folder, self._rules = root, folder, rules
        self._excluded, self._all_folders = excluded, all_folders
        self._matchers = {pattern: matcher([pattern]) for pattern in patterns}
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
                shown = _join(self._folder, name) + "/" * is_folder
                if is_folder and not (goes_on and self._is_wanted(entry, shown)):
                    continue
                if not is_folder and not self._is_matched(name):
                    continue
                if rules is not None and rules.ignore(shown):
                    yield Found(shown, GITIGNORE)
                elif not is_folder:
                    yield Found(shown)
                elif why := _no_documents(entry, all_folders=self._all_folders):
                    yield Found(shown, why)
                else:
                    waiting.append((name, rules))

    def _is_wanted(self, folder: os.DirEntry[str], shown: str) -> bool:
        """Return whether a folder may contain files to list or to report as skipped."""
        if folder.name.startswith(".") and not self._hidden:
            return False
        # One name in it and one in a subfolder tell whether all its files are excluded.
        return not (self._excluded(f"{shown}x") and self._excluded(f"{shown}x/x"))

    def _is_matched(self, name: str) -> bool:
        if not self._matches(name):
            return False
        if len(self.matched) < len(self._matchers):
            self.matched |= {one for one, matches in self._matchers.items() if matches(name)}
        return True


def _listed(root: Path, folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(root / folder) as entries:
            return list(entries)
    except OSError as error:
        where = folder or root
        why = error.strerror or str(error)
        hint = "make it readable, or exclude it"
        raise SourceError(f"{where}: cannot be listed: {why}; {hint}") from error


def _no_documents(folder: os.DirEntry[str], *, all_folders: bool) -> str:
    """Return why a folder's files are not documents; empty if they may be."""
    if folder.is_symlink():
        return "links to folders"
    if all_folders:
        return ""
    if folder.name in _FOLDERS_OF_TOOLS:
        return folder.name
    is_environment = os.path.lexists(os.path.join(folder.path, _VIRTUAL_ENVIRONMENT))
    return "virtual environments" if is_environment else ""


def _alternatives(patterns: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each pattern as written, with each of its alternatives without braces."""
    import bracex

    for pattern in patterns:
        for one in dict.fromkeys([*bracex.iexpand(pattern, keep_escapes=True, limit=0)]):
            yield pattern, "/".join(part for part in one.split("/") if part not in ("", "."))


def _literal_folder(pattern: str) -> tuple[str, str]:
    """Split a pattern into the folder before its first wildcard and the rest."""
    *parts, last = pattern.split("/")
    literal: list[str] = []
    for part in parts:
        name = _literal(part)
        if name is None:
            break
        literal.append(name)
    return "/".join(literal), "/".join([*parts[len(literal) :], last])


def _literal(part: str) -> str | None:
    """Return the name that a part of a pattern matches, or None if it has a wildcard."""
    if re.search(r"[*?\[]", re.sub(r"\\.", "", part)):
        return None
    return re.sub(r"\\(.)", r"\1", part)


def matcher(patterns: Sequence[str], *, folders: bool = False) -> Callable[[str], bool]:
    """Return a function that checks whether a path matches any of the patterns.

    With `folders`, a path also matches if a pattern names a folder above it.
    """
    from wcmatch import glob

    if not patterns:
        return lambda _: False
    wanted = []
    for _, pattern in _alternatives(patterns):
        wanted.append(_lower_ending(pattern))
        if folders and _literal(pattern.rpartition("/")[2]) is not None:
            wanted.append(f"{pattern}/**")
    compiled = glob.compile(wanted, flags=glob.GLOBSTAR | glob.FORCEUNIX, limit=0)
    return lambda name: bool(compiled.match(_lower_ending(name)))


def _lower_ending(text: str) -> str:
    """Return a name, or a pattern of one, with its extension in lower case."""
    before, dot, ending = text.rpartition(".")
    return text if "/" in ending else f"{before}{dot}{ending.lower()}"


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder and name else folder or name
