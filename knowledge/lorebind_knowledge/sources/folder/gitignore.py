"""The rules of `.gitignore` files, with the meaning that they have for git.

Each rule becomes one regular expression. A part between two wildcards is matched where it first
occurs, in an atomic group: no later place can match more. So no rule takes exponential time.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from pathlib import Path
from typing import NamedTuple

GITIGNORE = ".gitignore"
_LONGEST_FILE = 256 * 1024
_LONGEST_RULE = 4096
_MOST_RULES = 1000

_SIGN = re.compile(
    r"(?P<folders>(?:\A|(?<=/))\*\*+/)|(?P<rest>(?:\A|(?<=/))\*\*+\Z)|(?P<star>\*+)|(?P<one>\?)"
    r"|\[(?P<negated>[!^]?)(?P<set>(?>\]?(?:\[:[a-z]*:\]|\\.|[^\]\\])*))\]"
    r"|\\(?P<escaped>.)|(?P<literal>[^\[\\])",
    re.DOTALL,
)
_MEMBER = re.compile(
    r"\[:(?P<kind>[a-z]*):\]|(?P<low>\\.|.)-(?P<high>\\.|.)|(?P<one>\\.|.)", re.DOTALL
)
_KINDS = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t\n\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
"""The characters of `[:alpha:]` and others. Git counts only ASCII characters."""


class Rule(NamedTuple):
    """A line of a `.gitignore` file."""

    expression: str
    """Matches paths from the folder of the file, without `/` at the end."""
    ignores: bool
    """Whether it ignores what it matches; a rule with `!` includes it."""
    only_folders: bool


class RuleGroup(NamedTuple):
    """Successive rules that all ignore or all include what they match."""

    files: re.Pattern[str]
    folders: re.Pattern[str]
    ignores: bool

    def matches(self, path: str) -> bool:
        """Return whether a rule matches a path, which ends with `/` if it is a folder."""
        name = path.removesuffix("/")
        return bool((self.files if name == path else self.folders).fullmatch(name))


def grouped(rules: Iterable[Rule]) -> list[RuleGroup]:
    """Join rules, since one expression for all of them is matched much faster."""
    groups = []
    for ignores, some in groupby(rules, key=lambda rule: rule.ignores):
        folders = [(rule.expression, rule.only_folders) for rule in some]
        files = [expression for expression, only_folders in folders if not only_folders]
        of_files = re.compile("|".join(files) or "(?!)", re.DOTALL)
        of_folders = re.compile("|".join(expression for expression, _ in folders), re.DOTALL)
        groups.append(RuleGroup(of_files, of_folders, ignores))
    return groups


def parse_rule(line: str) -> Rule | None:
    """Return the rule of a line; None for a comment, or for a pattern that git never matches."""
    if line.startswith("#"):
        return None
    text = _without_spaces(line.removesuffix("\r"))
    pattern = text.removeprefix("!").removesuffix("/")
    anywhere = "" if "/" in pattern else "**/"
    expression = _expression(anywhere + pattern.removeprefix("/")) if pattern else None
    if expression is None:
        return None
    return Rule(expression, ignores=not text.startswith("!"), only_folders=text.endswith("/"))


def _without_spaces(line: str) -> str:
    """Remove the spaces at the end, except one after a backslash."""
    text = line.rstrip(" ")
    backslashes = len(text) - len(text.rstrip("\\"))
    return f"{text} " if backslashes % 2 and text != line else text


def _expression(pattern: str) -> str | None:
    """Return the regular expression of a pattern; None if git never matches it."""
    # `**/` separates the sections of a pattern, and `*` the parts of a section.
    sections: list[list[str]] = [[""]]
    end = 0
    while end < len(pattern):
        sign = _SIGN.match(pattern, end)
        if sign is None:  # a set that is not closed, or a backslash at the end
            return None
        end = sign.end()
        if sign["folders"]:
            sections.append([""])
        elif sign["star"]:
            sections[-1].append("")
        else:
            sections[-1][-1] += _sign(sign)
    first, *others = [_section(parts) for parts in sections]
    if others:
        *middle, last = others
        first += "".join(f"(?>(?:[^/]+/)*?{section})" for section in middle)
        first += f"(?:[^/]+/)*{last}"
    return first


def _section(parts: list[str]) -> str:
    if len(parts) == 1:
        return parts[0]
    first, *middle, last = parts
    return f"{first}{''.join(f'(?>[^/]*?{part})' for part in middle)}[^/]*{last}"


def _sign(sign: re.Match[str]) -> str:
    if sign["rest"]:
        return ".+"
    if sign["one"]:
        return "[^/]"
    if sign["set"] is None:
        return re.escape(sign["escaped"] or sign["literal"])
    members = "".join(map(_member, _MEMBER.finditer(sign["set"])))
    if sign["negated"]:
        return f"[^/{members}]"
    return f"(?!/)[{members}]" if members else "(?!)"


def _member(member: re.Match[str]) -> str:
    if member["kind"] is not None:
        return _KINDS.get(member["kind"], "")
    if member["one"]:
        return re.escape(member["one"][-1])
    low, high = member["low"][-1], member["high"][-1]
    return f"{re.escape(low)}-{re.escape(max(low, high))}"  # git matches the first character anyway


def verdict(rules: Sequence[RuleGroup], *paths: str) -> bool | None:
    """Return whether the last rule that matches any of the paths ignores it; None if none does."""
    for group in reversed(rules):
        if any(map(group.matches, paths)):
            return group.ignores
    return None


@dataclass(frozen=True, slots=True)
class Rules:
    """The `.gitignore` files that apply to a folder."""

    above: str
    """Path from the top of the repository to the searched folder, ending with `/`."""
    files: tuple[tuple[str, Sequence[RuleGroup]], ...] = ()
    """The rules of each file with its folder, from the top down.

    The folder is a path from the top of the repository, ending with `/`.
    """
    notices: list[str] = field(default_factory=list)
    """Messages about rules that are not applied, shared with the rules of subfolders."""

    def ignore(self, name: str) -> bool:
        """Return whether a path is ignored; a folder's ends with `/`. No parent is ignored."""
        path = self.above + name
        for folder, rules in reversed(self.files):
            ignored = verdict(rules, path[len(folder) :])
            if ignored is not None:
                return ignored
        return False

    def with_those_of(self, root: Path, folder: str) -> Rules:
        """Return these rules with those of the folder itself."""
        rules = _read(root, root / folder, self.notices)
        if not rules:
            return self
        place = self.above + (f"{folder}/" if folder else "")
        return replace(self, files=(*self.files, (place, rules)))


def rules_above(root: Path, folder: str, notices: list[str]) -> Rules:
    """Read the rules in the folders above a folder, up to the top of its repository.

    Files that ignore the folder itself have no effect, because a pattern names the folder.

    Args:
        root: the searched folder.
        folder: path of the folder below it.
        notices: gets messages about rules that are not applied.
    """
    root = root.resolve()
    top = next((path for path in (root, *root.parents) if os.path.exists(path / ".git")), root)
    above = "" if top == root else f"{root.relative_to(top).as_posix()}/"
    meant = above + (f"{folder}/" if folder else "")
    files: list[tuple[str, Sequence[RuleGroup]]] = []
    ends = [number + 1 for number, sign in enumerate(meant) if sign == "/"]
    for start in (0, *ends[:-1]) if ends else ():
        rules = _read(root, top / meant[:start], notices)
        inside = [meant[start:end] for end in ends if end > start]
        if rules and not verdict(rules, *inside):
            files.append((meant[:start], rules))
    return Rules(above, tuple(files), notices)


def _read(root: Path, folder: Path, notices: list[str]) -> list[RuleGroup]:
    file = folder / GITIGNORE
    notice = ""
    rules: list[Rule] = []
    try:
        if stat.S_ISREG(os.stat(file).st_mode):  # reading a pipe would block
            with file.open(encoding="utf-8-sig", errors="replace", newline="") as opened:
                rules, notice = _parse(opened.read(_LONGEST_FILE + 1))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        notice = f"cannot be read and is not applied: {error.strerror or error}"
    if notice:
        notice = f"{Path(os.path.relpath(file, root)).as_posix()} {notice}"
        if notice not in notices:
            notices.append(notice)
    return grouped(rules)


def _parse(text: str) -> tuple[list[Rule], str]:
    """Return the rules of a file, and a notice if these are not all."""
    lines = text.split("\n")
    is_cut = len(text) > _LONGEST_FILE
    if is_cut:
        lines.pop()
    short = [line for line in lines if len(line) <= _LONGEST_RULE]
    rules = list(islice(filter(None, map(parse_rule, short)), _MOST_RULES + 1))
    if not is_cut and len(short) == len(lines) and len(rules) <= _MOST_RULES:
        return rules, ""
    return rules[:_MOST_RULES], (
        f"is not applied completely: it has more than {_MOST_RULES:,} rules, "
        f"{_LONGEST_RULE:,} characters in a line, or {_LONGEST_FILE // 1024} KiB"
    )
