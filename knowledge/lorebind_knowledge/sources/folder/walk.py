"""Find the files below a folder that match patterns, and what was skipped."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from heapq import merge
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lorebind_config.errors import SourceError
from lorebind_config.project_files import DATA_FOLDER
from lorebind_knowledge.sources.folder.gitignore import GITIGNORE, rules_above

if TYPE_CHECKING:
    from lorebind_knowledge.sources.folder.gitignore import Rules

EVERY_FILE = "**/*"
HIDDEN = "hidden"
LINKS_OUT = "links out of the folder"
_HIDDEN_TOOLS = frozenset({".git", ".hg", ".svn", DATA_FOLDER, GITIGNORE})
"""Hidden names that are not reported as hidden, because nobody expects documents there."""
_FOLDERS_OF_TOOLS = frozenset({"node_modules", "__pycache__", *_HIDDEN_TOOLS})
_IN_VIRTUAL_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")
"""Names that only virtual environments contain, whatever their folder is called."""
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL})
"""The errors that mean that there is no such file or folder."""


class Entry(NamedTuple):
    """A file to read, or a file or folder that is skipped or cannot be listed."""

    name: str
    """Path relative to the searched folder; a folder's path ends with `/`."""
    skipped: str = ""
    """Why it is skipped, in a word or two; empty for a file to read."""
    unlisted: str = ""
    """Why the folder cannot be listed; empty if it can."""
    named: bool = False
    """Whether a pattern without wildcards names it."""


class Listing:
    """The files below a folder that match any of the patterns, found while iterating.

    Entries are sorted by name, and memory does not grow with the number of files.

    `**` crosses folders, `{md,txt}` are alternatives, and the case of extensions does not matter.
    Hidden files and folders match only a pattern that writes the dot, and links to folders are not
    followed. Skipped are: these, what a `.gitignore` excludes, virtual environments, and folders of
    tools such as `node_modules` and `.git`. A folder that a pattern names is never skipped. A
    folder that cannot be listed is reported, and the others are searched.
    """

    unmatched: Sequence[str] = ()
    """Patterns that match nothing, as far as folders could be listed. Set after the last entry."""
    notices: Sequence[str] = ()
    """Messages about rules of `.gitignore` files that are not applied. Set after the last entry."""

    def __init__(
        self,
        root: Path,
        patterns: Sequence[str],
        *,
        exclude: Sequence[str] = (),
        respect_gitignore: bool = True,
        in_folder: str = EVERY_FILE,
        all_folders: bool = False,
    ) -> None:
        """
        Args:
            root: the folder to search. Iterating raises SourceError if it cannot be listed.
            patterns: relative to `root`. A pattern that names a folder matches the files below it.
            exclude: patterns of files, or names of folders, to skip without reporting them.
            respect_gitignore: use `.gitignore` files, including those above `root` in its
                repository.
            in_folder: pattern of the files to find in a folder that a pattern names.
            all_folders: search virtual environments and folders of tools too.
        """
        self._root, self._patterns, self._in_folder = root, patterns, in_folder
        self._respect_gitignore, self._all_folders = respect_gitignore, all_folders
        self._excluded = matcher(exclude, folders=True)

    def __iter__(self) -> Iterator[Entry]:
        matched: set[str] = set()
        notices: list[str] = []
        named, by_folder = self._parse(matched)
        walks = []
        for folder, sought in by_folder.items():
            kind, unlisted = _kind(self._root, folder)
            if unlisted:
                named[f"{folder}/"] = Entry(f"{folder}/", unlisted=unlisted)
                matched.update(*sought.values())
            if kind != "folder":
                continue
            if not _is_inside(os.path.realpath(self._root), self._root / folder):
                named[f"{folder}/"] = Entry(f"{folder}/", LINKS_OUT)
                continue
            walks.append((f"{folder}/" if folder else "", self._walk(folder, sought, notices)))
        walks.sort(key=lambda walk: walk[0])
        parts = [
            self._found(walk, by_folder[folder.removesuffix("/")], by_folder, matched)
            for folder, walk in walks
        ]
        together: Iterable[Entry] = chain.from_iterable(parts)
        if any(inner.startswith(outer) for (outer, _), (inner, _) in pairwise(walks)):
            together = merge(*parts, key=_name)  # the same folders are listed several times
        above = "/"  # no name begins with it
        if named:
            together = merge([named[name] for name in sorted(named)], together, key=_name)
        for entry in _once(together):
            if entry.unlisted and entry.name.startswith(above):
                continue
            above = entry.name if entry.unlisted else above
            if not self._excluded(entry.name):
                yield entry
        self.unmatched = [pattern for pattern in self._patterns if pattern not in matched]
        self.notices = notices

    def _parse(self, matched: set[str]) -> tuple[dict[str, Entry], dict[str, dict[str, set[str]]]]:
        """Return entries that patterns name, and patterns as written by pattern and folder."""
        root = self._root
        by_folder: dict[str, dict[str, set[str]]] = {}
        named: dict[str, Entry] = {}
        for written, pattern in _alternatives(self._patterns):
            folder, rest = _literal_folder(pattern)
            last = None if "/" in rest else _literal(rest)
            # A name may itself contain wildcard characters.
            for name in {pattern, _join(folder, last)} if last is not None else {pattern}:
                kind, unlisted = _kind(root, name)
                if unlisted:
                    named[f"{name}/"] = Entry(f"{name}/", unlisted=unlisted)
                    matched.add(written)
                if kind == "folder":
                    below = by_folder.setdefault(name, {})
                    for _, inside in _alternatives([self._in_folder]):
                        below.setdefault(inside, set()).add(written)
                elif kind == "file":
                    named[name] = Entry(name, named=True)
                    matched.add(written)
            # The extension of a file that is not found may be in upper case.
            if last is None or not os.path.lexists(root / folder / last):
                by_folder.setdefault(folder, {}).setdefault(rest, set()).add(written)
        return named, by_folder

    def _walk(self, folder: str, sought: Collection[str], notices: list[str]) -> _Walk:
        rules = rules_above(self._root, folder, notices) if self._respect_gitignore else None
        return _Walk(
            self._root,
            folder,
            list(sought),
            rules,
            self._excluded,
            all_folders=self._all_folders,
        )

    def _found(
        self,
        walk: _Walk,
        sought: Mapping[str, set[str]],
        searched: Collection[str],
        matched: set[str],
    ) -> Iterator[Entry]:
        """Yield the entries of a walk, without the skipped folders that are `searched` anyway."""
        for entry in walk.files():
            if entry.unlisted:
                matched.update(*sought.values())
            if not (entry.skipped and entry.name.removesuffix("/") in searched):
                yield entry
        matched.update(*(sought[pattern] for pattern in walk.matched))


def _name(entry: Entry) -> str:
    return entry.name


def _once(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield one of sorted entries with the same name: the first that is not skipped."""
    waiting: Entry | None = None
    for entry in entries:
        if waiting is None or waiting.name != entry.name:
            if waiting is not None:
                yield waiting
            waiting = entry
        elif waiting.skipped:
            waiting = entry
    if waiting is not None:
        yield waiting


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
        self._home = os.path.realpath(root)
        self._matchers = {pattern: matcher([pattern]) for pattern in patterns}
        self._matches = matcher(patterns)
        self._patterns = patterns
        self._deepest = max(
            len(pattern.split("/")) if "**" not in pattern else 10**6 for pattern in patterns
        )
        self._hidden = any(
            part.startswith(".") for pattern in patterns for part in pattern.split("/")
        )

    def files(self) -> Iterator[Entry]:
        """Yield the entries sorted by name."""
        opened = [self._step("", self._rules)]
        while opened:
            for entry in opened[-1]:
                if isinstance(entry, Entry):
                    yield entry
                else:
                    opened.append(self._step(*entry))
                    break
            else:
                opened.pop()

    def _step(self, below: str, rules: Rules | None) -> Iterator[Entry | tuple[str, Rules | None]]:
        """Yield the entries of one folder, and arguments of this method for each folder in it."""
        folder = _join(self._folder, below)
        try:
            names, folders = _listed(self._root, folder)
        except OSError as error:
            why = error.strerror or str(error)
            if not folder:
                raise SourceError(f"{self._root}: cannot be listed: {why}") from error
            if not isinstance(error, FileNotFoundError):  # it may just have been removed
                yield Entry(f"{folder}/", unlisted=why)
            return
        if rules is not None and GITIGNORE in names:
            rules = rules.with_those_of(self._root, folder)
        goes_on = below.count("/") + bool(below) + 1 < self._deepest
        above, prefix = (f"{name}/" if name else "" for name in (self._folder, below))
        for ended in names:
            entry = folders.get(ended)
            name = prefix + ended.removesuffix("/")
            path = above + prefix + ended
            if entry is not None and not (goes_on and self._is_wanted(path)):
                continue
            is_hidden = entry is not None and ended.startswith(".") and not self._hidden
            if entry is None and not self._is_matched(name):
                if not self._is_hidden(name):
                    continue
                is_hidden = True
            if is_hidden:
                if ended.removesuffix("/") not in _HIDDEN_TOOLS:
                    yield Entry(path, (entry is not None and self._no_documents(entry)) or HIDDEN)
            elif rules is not None and rules.ignore(path):
                yield Entry(path, GITIGNORE)
            elif entry is None:
                yield Entry(path)
            elif why := self._no_documents(entry):
                yield Entry(path, why)
            else:
                yield name, rules

    def _is_wanted(self, folder: str) -> bool:
        """Return whether a folder may contain files to list or to report as skipped."""
        # One name in it and one in a subfolder tell whether all its files are excluded.
        return not (self._excluded(f"{folder}x") and self._excluded(f"{folder}x/x"))

    def _is_hidden(self, name: str) -> bool:
        """Return whether a file that does not match would match if it were not hidden."""
        return "/." in f"/{name}" and self._matches_hidden(name)

    @cached_property
    def _matches_hidden(self) -> Callable[[str], bool]:
        return matcher(self._patterns, hidden=True)

    def _no_documents(self, folder: os.DirEntry[str]) -> str:
        """Return why a folder's files are not documents; empty if they may be."""
        if folder.is_symlink():
            return "links to folders" if _is_inside(self._home, folder.path) else LINKS_OUT
        if self._all_folders:
            return ""
        if folder.name in _FOLDERS_OF_TOOLS:
            return folder.name
        marks = (os.path.join(folder.path, mark) for mark in _IN_VIRTUAL_ENVIRONMENTS)
        return "virtual environments" if any(map(os.path.lexists, marks)) else ""

    def _is_matched(self, name: str) -> bool:
        if not self._matches(name):
            return False
        if len(self.matched) < len(self._matchers):
            self.matched |= {
                pattern for pattern, matches in self._matchers.items() if matches(name)
            }
        return True


def _is_inside(home: str, path: Path | str) -> bool:
    try:
        real = os.path.realpath(path)
    except OSError:  # another process has replaced a link while it was resolved
        return False
    return (real + os.sep).startswith(os.path.join(home, ""))


def _kind(root: Path, name: str) -> tuple[str, str]:
    """Return `folder`, `file` or an empty text for none, and the error if that is uncertain."""
    unlisted = ""
    try:
        if stat.S_ISDIR(os.stat(root / name).st_mode):
            return "folder", ""
    except ValueError:  # a name with a zero
        return "", ""
    except OSError as error:
        unlisted = "" if error.errno in _ABSENT else error.strerror or str(error)
    return ("file" if os.path.lexists(root / name) else ""), unlisted


def _listed(root: Path, folder: str) -> tuple[list[str], dict[str, os.DirEntry[str]]]:
    """Return the sorted names in a folder, and the entries of folders by name.

    The name of a folder ends with `/`, as in the paths below it, so that these are sorted too.
    """
    names, folders = [], {}
    with os.scandir(root / folder) as entries:
        for entry in entries:
            name = entry.name
            if _is_folder(entry):
                name += "/"
                folders[name] = entry
            names.append(name)
    names.sort()
    return names, folders


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        if entry.is_symlink():  # for example a link to itself; reading it will fail
            return False
        raise


def _alternatives(patterns: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each pattern as written, with each of its alternatives without braces."""
    import bracex

    for pattern in patterns:
        for expanded in dict.fromkeys([*bracex.iexpand(pattern, keep_escapes=True, limit=0)]):
            yield pattern, "/".join(part for part in expanded.split("/") if part not in ("", "."))


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


def matcher(
    patterns: Sequence[str], *, folders: bool = False, hidden: bool = False
) -> Callable[[str], bool]:
    """Return a function that checks whether a path matches any of the patterns.

    With `folders`, a path also matches if a pattern names a folder above it. With `hidden`,
    wildcards also match hidden names.
    """
    from wcmatch import glob

    if not patterns:
        return lambda _: False
    expanded = []
    for _, pattern in _alternatives(patterns):
        expanded.append(_lower_ending(pattern))
        if folders and _literal(pattern.rpartition("/")[2]) is not None:
            expanded.append(f"{pattern}/**")
    flags = glob.GLOBSTAR | glob.FORCEUNIX | (glob.DOTGLOB if hidden else 0)
    # Its own matcher takes several times as long, because it can also look at the file system.
    expressions, _ = glob.translate(expanded, flags=flags, limit=0)
    match = re.compile("|".join(f"(?:{expression})" for expression in expressions)).fullmatch
    return lambda name: match(name if name.islower() else _lower_ending(name)) is not None


def _lower_ending(text: str) -> str:
    """Return a name, or a pattern of one, with its extension in lower case."""
    before, dot, ending = text.rpartition(".")
    return text if "/" in ending else f"{before}{dot}{ending.lower()}"


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder and name else folder or name
