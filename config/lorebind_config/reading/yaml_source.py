"""Reads a YAML file as plain data, with the position of each value."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, NoReturn

import yaml
from yaml.composer import Composer

from lorebind_config.declarations.base import Declaration, Path, Position
from lorebind_config.errors import ConfigurationError, Problem
from lorebind_config.redaction import is_secret_path
from lorebind_config.templates import ANYTHING

_READ_DIFFERENTLY = re.compile(
    # Tags, `?` in brackets, tabs, characters that are not printable, and line endings that only
    # YAML knows. The set of all other characters takes 2 ms to compile, at each start.
    "[!?\0-\t\v\f\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]"
    # Directives, and a comment directly after `|` or `>`.
    "|^%|[|>][-+0-9]*#",
    re.MULTILINE,
)


def libyaml_loader(text: str) -> Any:
    """Return the loader class; None without libyaml, or if it may read the text differently.

    For invalid YAML, the messages and positions of libyaml always differ from PyYAML's.
    """
    if not yaml.__with_libyaml__ or _READ_DIFFERENTLY.search(text):
        return None
    return _Loader


if yaml.__with_libyaml__:

    class _Loader(Composer, yaml.CSafeLoader):
        """libyaml's scanner and parser with PyYAML's composer.

        The composer of libyaml would crash the process when deep nesting overflows the stack.
        """

        def __init__(self, text: str) -> None:
            yaml.CSafeLoader.__init__(self, text)
            Composer.__init__(self)


MAX_DEPTH = 60
MAX_COPIES = 10_000
"""Maximum number of values that aliases may copy, so that no small file can exhaust the memory."""

_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
"""The line endings that PyYAML recognizes."""

_MAP, _SEQ = "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"
_MERGE, _VALUE = "tag:yaml.org,2002:merge", "tag:yaml.org,2002:value"


@dataclass(frozen=True, slots=True)
class Mark:
    """The position of a value: that of its key, or in a list that of the value itself."""

    line: int
    column: int
    raw: str | None = field(default=None, repr=False)
    """The text of an unquoted scalar, before YAML turns it into a boolean or a number."""


@dataclass(frozen=True)
class YamlSource:
    """Plain data, with the position of each of its values.

    Use `read` for a file and `from_data` for Python objects.
    """

    shown_as: str
    data: dict[str, Any] = field(repr=False)
    marks: Mapping[Path, Mark] = field(default_factory=dict, repr=False)
    problems: tuple[Problem, ...] = ()
    """Problems of single values that did not prevent reading the rest."""
    doubtful: frozenset[Path] = frozenset()
    """Paths of the values with problems; a value that cannot be read is ANYTHING."""

    @classmethod
    def read(cls, file: FilePath, root: FilePath) -> YamlSource:
        """Read a file, and collect the problems of single values in `problems`.

        Args:
            file: The file.
            root: The project folder; messages show the path relative to it.

        Raises:
            ConfigurationError: The file cannot be read as a mapping.
        """
        shown_as = _name_of(file, root)
        return cls.parse(_text(file, shown_as), shown_as)

    @classmethod
    def parse(cls, text: str, shown_as: str) -> YamlSource:
        """Read a text as `read` reads a file; `shown_as` is its name in messages."""
        quick = libyaml_loader(text)
        if quick is not None:
            with suppress(ConfigurationError):
                return _Builder(shown_as, text).build(quick)
        # PyYAML's own scanner gives the messages and positions of problems.
        return _Builder(shown_as, text).build(yaml.SafeLoader)

    @classmethod
    def read_start(cls, file: FilePath, root: FilePath) -> YamlSource:
        """Read the top-level keys, `id` and `resource` of a file that is not valid YAML."""
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            text = ""
        pairs = re.findall(r"""^(\w+):[ \t]*["']?([\w.-]*)""", text, re.MULTILINE)
        data = {key: word if key in ("id", "resource") else ANYTHING for key, word in pairs}
        return cls(_name_of(file, root), data, {(): Mark(1, 1)})

    @classmethod
    def from_data(cls, data: Mapping[str, Any], shown_as: str = "<python>") -> YamlSource:
        """Read plain data from Python objects, whose positions are paths instead of lines.

        Mappings, sequences and declarations are converted; any other object stays as it is.

        Raises:
            ConfigurationError: A key is not a string.
        """
        problems: list[Problem] = []
        plain = _plain(data, (), shown_as, problems)
        if problems:
            raise ConfigurationError(problems)
        return cls(shown_as, plain)

    def nested(self, path: Path, without: Collection[str] = (), top: Path = ()) -> YamlSource:
        """Return the mapping at `top`, moved to another path of a new source.

        Args:
            path: New path of the mapping, of keys and indices 0.
            without: Keys of the mapping to omit.
            top: Current path of the mapping.
        """
        data: Any = self.data
        for step in top:
            data = data[step]
        if isinstance(data, dict):
            data = {key: value for key, value in data.items() if key not in without}
        for step in reversed(path):
            data = [data] if step == 0 else {step: data}

        def moved(places: Iterable[Path]) -> dict[Path, Path]:
            depth = len(top)
            inside = (place for place in places if place[:depth] == top)
            rest = (place for place in inside if place[depth : depth + 1] not in left_out)
            return {path + place[depth:]: place for place in rest}

        left_out = {(key,) for key in without}
        around = {path[:end]: self.marks[top] for end in range(len(path) + 1) if self.marks}
        marks = around | {new: self.marks[old] for new, old in moved(self.marks).items()}
        return YamlSource(
            self.shown_as, data, marks, self.problems, frozenset(moved(self.doubtful))
        )

    def position(self, path: Path) -> Position:
        """Return the position of the value at a path, or of the nearest value that contains it."""
        if not self.marks:
            return Position(_dotted(self.shown_as, path), 0, 0)
        while path and path not in self.marks:
            path = path[:-1]
        mark = self.marks[path]
        return Position(self.shown_as, mark.line, mark.column)

    def raw(self, path: Path) -> str | None:
        """Return the text of the unquoted scalar at a path; None for any other value."""
        mark = self.marks.get(path)
        return mark.raw if mark else None

    def problem(self, path: Path, message: str, hint: str = "") -> Problem:
        """Return a problem with the value at a path."""
        at = self.position(path)
        return Problem(at.file, at.line, at.column, message, hint)


def _name_of(file: FilePath, root: FilePath) -> str:
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else file.name


def _dotted(shown_as: str, path: Path) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return f"{shown_as}: {''.join(steps).removeprefix('.')}" if path else shown_as


def _plain(value: Any, path: Path, shown_as: str, problems: list[Problem]) -> Any:
    if isinstance(value, Declaration):
        value = value.written()
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                place = _dotted(shown_as, path)
                problems.append(Problem(place, 0, 0, f"the key {key!r} is not text"))
        return {
            key: _plain(item, (*path, str(key)), shown_as, problems) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_plain(item, (*path, i), shown_as, problems) for i, item in enumerate(value)]
    return value


def _text(file: FilePath, shown_as: str) -> str:
    try:
        content = file.read_bytes()
    except OSError as error:
        reason = f"the file cannot be read: {(error.strerror or 'unknown reason').lower()}"
        raise ConfigurationError([Problem(shown_as, 0, 0, reason)]) from None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problem = Problem(shown_as, line, 1, "the file is not UTF-8", "save it as UTF-8")
        # The error would show bytes of the file.
        raise ConfigurationError([problem]) from None


class _StopError(Exception):
    """Reading cannot continue."""


class _Builder:
    """Builds the data from the nodes that PyYAML composed."""

    def __init__(self, shown_as: str, text: str) -> None:
        self.shown_as = shown_as
        self.text = text
        self.marks: dict[Path, Mark] = {}
        self.problems: list[Problem] = []
        self.doubtful: set[Path] = set()
        self._doubtful_keys: set[int] = set()
        self._open: list[yaml.Node] = []
        self._seen: set[int] = set()
        self._copies = 0
        self._pairs: dict[int, dict[str, tuple[yaml.Node, yaml.Node]]] = {}

    def build(self, loader: Any) -> YamlSource:
        data: Any = None
        try:
            self._loader = loader(self.text)
            data = self._top(self._loader.get_single_node())
        except yaml.YAMLError as error:
            self._syntax(error)
        except RecursionError:
            self._report(1, 1, "the file is nested too deeply")
        except _StopError:
            pass
        if data is None:
            # No cause is chained: PyYAML's errors quote lines, which may contain secrets.
            raise ConfigurationError(self.problems) from None
        problems = tuple(self.problems)
        return YamlSource(self.shown_as, data, self.marks, problems, frozenset(self.doubtful))

    def _top(self, node: yaml.Node | None) -> Any:
        if node is None:
            self._report(1, 1, "the file is empty", "write at least a name or an id")
            raise _StopError
        line, column = _place(node)
        if not isinstance(node, yaml.MappingNode):
            self._report(line, column, "expected a mapping of keys at the top of the file")
            raise _StopError
        self.marks[()] = Mark(line, column)
        return self._value(node, ())

    def _value(self, node: yaml.Node, path: Path) -> Any:
        self._guard(node)
        if isinstance(node, yaml.ScalarNode):
            return self._plain_scalar(node, path)
        expected = _MAP if isinstance(node, yaml.MappingNode) else _SEQ
        if node.tag != expected:
            self._fail(node, "YAML tags are not supported here")
        self._open.append(node)
        value = self._mapping(node, path) if expected == _MAP else self._sequence(node, path)
        self._open.pop()
        return value

    def _guard(self, node: yaml.Node) -> None:
        if any(node is outer for outer in self._open):
            self._fail(node, "an alias refers to a value that contains it")
        if len(self._open) >= MAX_DEPTH:
            self._fail(node, f"nested more than {MAX_DEPTH} levels deep")
        self._copies += id(node) in self._seen
        self._seen.add(id(node))
        if self._copies > MAX_COPIES:
            self._fail(node, f"aliases repeat more than {MAX_COPIES} values")

    def _mapping(self, node: yaml.Node, path: Path) -> Any:
        if _is_bare_template(node):
            line, column = _place(node)
            hint = 'put quotes around it: "{{ .env.NAME }}"'
            self._report(line, column, "YAML reads {{ … }} without quotes as a mapping", hint)
            self.doubtful.add(path)
            return ANYTHING
        data = {}
        for name, (key, value) in self._entries(node).items():
            if id(key) in self._doubtful_keys:
                self.doubtful.add((*path, name))
            self.marks[*path, name] = Mark(*_place(key), _raw(value))
            data[name] = self._value(value, (*path, name))
        return data

    def _sequence(self, node: yaml.Node, path: Path) -> list[Any]:
        data = []
        for index, item in enumerate(node.value):
            self.marks[*path, index] = Mark(*_place(item), _raw(item))
            data.append(self._value(item, (*path, index)))
        return data

    def _entries(self, node: yaml.Node) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Return the entries of a mapping by key, those of `<<` first, each key once."""
        if id(node) in self._pairs:
            return self._pairs[id(node)]
        written: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        merged: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key, value in node.value:
            if key.tag == _MERGE:
                for base in self._bases(value, node):
                    merged = self._entries(base) | merged
                continue
            name = self._key(key)
            if name is None:
                continue
            if name in written:
                line, column = _place(key)
                first = _place(written[name][0])
                where = f"it is first written at {self.shown_as}:{first[0]}:{first[1]}"
                self._report(line, column, f"the key {name!r} is written twice", where)
                self._doubtful_keys.add(id(written[name][0]))
                continue
            written[name] = (key, value)
        self._pairs[id(node)] = merged | written
        return self._pairs[id(node)]

    def _bases(self, value: yaml.Node, holder: yaml.Node) -> Iterator[yaml.Node]:
        for base in value.value if isinstance(value, yaml.SequenceNode) else [value]:
            if not isinstance(base, yaml.MappingNode):
                self._fail(base, "'<<' expects a mapping, or a list of mappings")
            if base is holder or any(base is outer for outer in self._open):
                self._fail(base, "an alias refers to a value that contains it")
            # `_value`, which checks the limits, does not see merged mappings.
            self._guard(base)
            self._open.append(base)
            yield base
            self._open.pop()

    def _key(self, key: yaml.Node) -> str | None:
        line, column = _place(key)
        if not isinstance(key, yaml.ScalarNode):
            self._report(line, column, "a key must be text, not a list or a mapping")
            return None
        name = self._scalar(key)
        if isinstance(name, str):
            return name
        if name is not ANYTHING:
            message = f"YAML reads the key {key.value or 'nothing'} as {described_type(name)}"
            self._report(line, column, message, f'quote it: "{key.value}"')
        self._doubtful_keys.add(id(key))
        return str(key.value)

    def _plain_scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        value = self._scalar(node)
        if _is_surprising(node, value):
            message, hint = "YAML reads this as a different number", "write a template"
            if not is_secret_path(path):
                raw, number = short(node.value), short(repr(value))
                message = f"YAML reads {raw} as the number {number}"
                hint = f'write {number}, or quote it to make it text: "{raw}"'
            self._report(*_place(node), message, hint)
            value = ANYTHING
        if value is ANYTHING:
            self.doubtful.add(path)
        return value

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        if node.tag in (_MERGE, _VALUE):  # a plain << or = as a value
            return node.value
        try:
            return self._loader.construct_object(node)
        except (yaml.YAMLError, ValueError, ArithmeticError, LookupError, AttributeError):
            kind = node.tag.removeprefix("tag:yaml.org,2002:")
            is_standard = kind in ("int", "float", "bool", "timestamp", "binary", "null")
            what = (
                f"this cannot be read as the YAML type {kind}"
                if is_standard
                else "YAML tags are not supported"
            )
            self._report(*_place(node), what, "quote it to make it text")
            return ANYTHING

    def _syntax(self, error: yaml.YAMLError) -> None:
        if isinstance(error, yaml.reader.ReaderError):
            before = _LINE_BREAK.split(self.text[: error.position])
            place = len(before), len(before[-1]) + 1
            self._report(*place, "there is a control character here", "remove it")
            return
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        problem = getattr(error, "problem", None) or "it cannot be read"
        if problem == "but found another document":
            message = "a second document starts here"
            self._report(line, column, message, "write one per file, or remove the line '---'")
            return
        lines = _LINE_BREAK.split(self.text)
        here = lines[line - 1] if line <= len(lines) else ""
        hint = ""
        if here[column - 1 : column] == "\t":
            hint = "indent with spaces, not with tabs"
        elif re.search(r"""(?<!["'])\{\{""", here):
            hint = "put quotes around text that contains {{ … }}"
        self._report(line, column, f"this is not YAML: {_safe(problem)}", hint)

    def _fail(self, node: yaml.Node, message: str) -> NoReturn:
        self._report(*_place(node), message)
        raise _StopError

    def _report(self, line: int, column: int, message: str, hint: str = "") -> None:
        self.problems.append(Problem(self.shown_as, line, column, message, hint))


def _place(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _raw(node: yaml.Node) -> str | None:
    plain = isinstance(node, yaml.ScalarNode) and not node.style
    return node.value if plain else None


def _is_surprising(node: yaml.ScalarNode, value: Any) -> bool:
    """Check for digits that YAML 1.1 reads as another number: octal 012 is 10, 12:30 is 750."""
    if node.style or isinstance(value, bool) or not isinstance(value, int | float):
        return False
    octal = isinstance(value, int) and re.match(r"[-+]?0[0-9_]", node.value) is not None
    return octal or ":" in node.value


def _is_bare_template(node: yaml.Node) -> bool:
    return len(node.value) == 1 and isinstance(node.value[0][0], yaml.MappingNode)


def _safe(problem: str) -> str:
    """Return PyYAML's message without its quotations of the file, which may be secrets."""

    def unquoted(quoted: re.Match[str]) -> str:
        # Single characters and names of tokens are syntax, as in `expected ',' or '}'`.
        text = quoted[2]
        return quoted[0] if len(text) < 2 or text.startswith("<") else ""

    return re.sub(r"""\s*(['"])(.*?)\1""", unquoted, problem)


def described_type(value: Any) -> str:
    """Return the type of a YAML value for messages, such as `a boolean` or `nothing`."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "a date" if hasattr(value, "isoformat") else f"a {type(value).__name__}"


def short(text: str) -> str:
    """Shorten a value for messages."""
    return text if len(text) <= 60 else text[:57] + "..."
