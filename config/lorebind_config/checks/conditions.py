"""Conditions of workflows, written in CEL, the Common Expression Language.

This is the only file that uses the C++ runtime of CEL (`cel-expr-python`). An expression can read
the values of a run, but neither `env` nor `secrets`. It can call only the functions and macros of
CEL itself, and at most 10,000 steps of its macros are run.

The runtime converts the values of an `Activation`, and frees them with it. Converting takes longer
than most evaluations, so the conditions of all items of a collection share one (`Converted`), and
get the item from a function.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from lorebind_config.errors import UsageError, did_you_mean
from lorebind_config.plugins import import_extra

_Path = tuple[str, ...]

NAMES = ("input", "workflow", "tasks", "state", "item", "index", "output", "error")
"""The names that expressions may use; which of them are defined depends on the location."""

MAX_ITEMS = 2_000
"""Maximum length of a list that `map` and `filter` may process. The runtime copies the result so
far at every item: 1.6 GB for 10,000 items. The runtime itself refuses more than 10,000 macro
steps."""

MAX_DEPTH = 200
"""Maximum nesting of lists and mappings; without it, the runtime crashes on deep values."""

_TOKEN = re.compile(
    r"""
    (?P<text>
        [bBrR]{0,2} (?: '''.*?(?:'''|\Z) | \"{3}.*?(?:\"{3}|\Z) )
        | (?: [rR][bB]? | [bB][rR] ) (?: '[^']*+'? | "[^"]*+"? )
        | [bB]? (?: '(?:\\.|[^'\\])*+'? | "(?:\\.|[^"\\])*+"? )
    )
    | (?P<name> [A-Za-z_][A-Za-z0-9_]* | `[^`]*` )
    | (?P<comment> //[^\n]* )
    | (?P<other> \S )
    """,
    re.VERBOSE | re.DOTALL,
)
"""A text that is not closed ends with the expression, so that no part is scanned twice."""
_HINT = "write it in CEL, as in tasks.read.output.kind == 'refund'"
_SPELT = {"and": "&&", "or": "||", "not": "!", "=": "=="}
"""The CEL spelling of operators of other languages."""
_FUNCTIONS = (
    *("all", "exists", "exists_one", "filter", "has", "map"),
    *("bool", "contains", "double", "dyn", "endsWith", "int", "matches", "size"),
    *("startsWith", "string", "type"),
)
"""The functions and macros of CEL that accept JSON values."""
_TYPES = {
    "bool": "true or false",
    "dyn": "a value",
    "double": "a number with a fraction",
    "int": "an integer",
    "int64": "an integer",
    "list": "a list",
    "map": "a mapping",
    "null_type": "null",
    "string": "text",
}
_REASONS = {
    "Iteration budget": "it takes more than 10,000 steps",
    "SELECT to non-message": "it reads a key of a value that is not a mapping; the output of a "
    "task that did not run is null",
    "Invalid container type": "it reads an element of a value that is neither a list nor a mapping",
    "Key not found": "a key is missing; use has(…) to check whether it is there",
    "Index error": "an index is outside its list",
    "divide by zero": "it divides by zero",
    "modulus by zero": "it divides by zero",
    "overflow": "an integer becomes too large",
    "out of range": "an integer is too large",
    "regular expression": "a regular expression is malformed",
    "<jump_condition>": "the value before '?' is neither true nor false",
    "<iter_range>": "a macro iterates over a value that is neither a list nor a mapping",
    "cannot convert": "a value cannot be converted",
    "found in Activation": "it uses a name that is not known here",
    "Non-CEL value": "a value cannot be represented in JSON",
    "construction from null": "a text value cannot be represented in JSON",
}
"""Our message for each error of the runtime, whose own messages may contain values."""


class ConditionError(UsageError):
    """A condition is malformed or cannot be evaluated; the message never contains values."""

    def __init__(self, text: str, message: str, hint: str = "") -> None:
        excerpt = text if len(text) <= 200 else f"{text[:199]}…"
        super().__init__(f"condition {excerpt!r}: {message}", hint)
        self.text, self.message = text, message


class Condition:
    """A compiled expression; it is safe to evaluate in several threads at the same time."""

    def __init__(self, text: str) -> None:
        self.text = text
        tokens = [match[0] for match in _TOKEN.finditer(text) if match.lastgroup != "comment"]
        self.paths = frozenset(_paths(tokens))
        """The paths that it uses: `tasks.read.output` is ("tasks", "read", "output")."""
        self.roots = frozenset(path[0] for path in self.paths)
        """The names out of NAMES that it uses."""
        self.names = frozenset(path[1] for path in self.paths if path[0] == "tasks" and path[1:])
        """The ids of the tasks that it uses."""
        self._makes_lists = any(
            (dot, name, opened) in ((".", "map", "("), (".", "filter", "("))
            for dot, name, opened in zip(tokens, tokens[1:], tokens[2:], strict=False)
        )
        self._compiled = _compiled(text, items=False)
        self.kind = _kind(self._compiled.return_type())
        """CEL type of the result: `bool`, `string`, `list`; `dyn` if only a run determines it."""
        longest_first = sorted(self.paths, key=len, reverse=True)
        self._each = [path for path in longest_first if path[0] in _EACH]
        self._shared = [path for path in longest_first if path[0] not in _EACH]
        if self._each:
            for name in self.roots.intersection(_EACH):
                text = f"current_{name}().map({name}, {text}\n)[0]"
            self._compiled = _compiled(text, items=True)

    def value(self, scopes: Mapping[str, Any], converted: Converted | None = None) -> Any:
        """Evaluate the expression, and return its result as plain JSON data.

        Args:
            scopes: Values of the run by their NAMES, as plain JSON data. Values that the
                expression does not use are not read.
            converted: Cache for the evaluations of many items, so that values shared by all items
                are converted only once.

        Raises:
            ConditionError: A key is missing, types do not match, it takes too many steps, or a
                value cannot be represented in JSON.
        """
        each = _named(self._each, scopes)
        if not self.roots.intersection(_EACH) <= each.keys():
            raise self._error("it uses a name that is not known here")
        self._refuse_unfit(each)
        activation = self._activation(scopes, {} if converted is None else converted)
        try:
            for name, item in each.items():
                _current.lists[name].append(item)
            result = self._compiled.eval(activation=activation)
        except (RuntimeError, ValueError, TypeError) as error:
            raise self._error(self._reason(str(error))) from None
        finally:
            for items in _current.lists.values():
                items.clear()
        return self._plain(result)

    def _activation(self, scopes: Mapping[str, Any], converted: Converted) -> Any:
        """Return the runtime's form of all values that the expression uses except `_EACH`."""
        values = [_at(path, scopes) for path in self._shared]
        cached = converted.get(self.text)
        if cached is None or cached.left == 0 or not cached.is_of(values):
            data = _named(self._shared, scopes)
            self._refuse_unfit(data)
            activation = _runtime(items=bool(self._each)).Activation(data=data)
            cached = converted[self.text] = _Kept(values, activation)
        cached.left -= 1
        return cached.activation

    def truth(self, scopes: Mapping[str, Any], converted: Converted | None = None) -> bool:
        """Evaluate the expression, whose result must be true or false.

        Raises:
            ConditionError: As for `value`, or the result is neither true nor false.
        """
        result = self.value(scopes, converted)
        if not isinstance(result, bool):
            raise self._error(f"expected true or false, got {_described(result)}")
        return result

    def _plain(self, value: Any) -> Any:
        kind, content = _kind(value.type()), value.value()
        if kind == "error":
            raise self._error(self._reason(str(content)))
        if kind == "list":
            return [self._plain(item) for item in content]
        if kind == "map" and all(isinstance(key, str) for key in content):
            return {key: self._plain(item) for key, item in content.items()}
        if kind in ("null_type", "null", "bool", "int", "uint", "string"):
            return content
        if kind == "double" and math.isfinite(content):
            return content
        raise self._error(f"its value, a {kind}, cannot be represented in JSON")

    def _refuse_unfit(self, data: Mapping[str, Any]) -> None:
        """Refuse data that the runtime cannot process."""
        ahead: list[Any] = [data]
        for _ in range(MAX_DEPTH):
            inner: list[Any] = []
            for value in ahead:
                if self._makes_lists and len(value) > MAX_ITEMS:
                    message = f"map and filter take at most {MAX_ITEMS:,} items"
                    raise self._error(f"{message}, and a list here has {len(value):,}")
                items = [*value, *value.values()] if isinstance(value, dict) else value
                if any(isinstance(item, str) and "\0" in item for item in items):
                    # The runtime would cut off the text at the null character.
                    raise self._error("a text value contains a null character")
                inner += [item for item in items if isinstance(item, list | dict)]
            ahead = inner
        if ahead:
            raise self._error(f"it uses a value nested deeper than {MAX_DEPTH} levels")

    def _reason(self, message: str) -> str:
        """Return why it cannot be evaluated, as a message that contains no values."""
        if overload := re.search(
            r"overloads found : (?!<[a-z])(?:\((.*)\)\.)?([^\s(]+)(?:\((.*)\))?", message
        ):
            return _no_overload(overload[2], overload[1] or overload[3])
        missing = re.search(r'Key not found in map : "(.*)"', message, re.DOTALL)
        # A key that was computed may be confidential; a key in the expression is not.
        if missing and any(missing[1] in path for path in self.paths):
            return f"there is no key {missing[1]!r}; use has(…) to check whether it is there"
        return next((ours for theirs, ours in _REASONS.items() if theirs in message), "it fails")

    def _error(self, message: str, hint: str = "") -> ConditionError:
        return ConditionError(self.text, message, hint)


def _named(paths: Iterable[_Path], scopes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of the scopes at these paths (longest first): the runtime copies it all."""
    named: dict[str, Any] = {}
    for path in paths:
        *above, last = path
        scope, part = scopes, named
        for key in above:
            inner = scope.get(key)
            if not isinstance(inner, dict):
                last = key
                break
            scope, part = inner, part.setdefault(key, {})
        if last in scope:
            part[last] = scope[last]
    return named


def _at(path: _Path, scopes: Mapping[str, Any]) -> tuple[int, Any]:
    """Return the depth and the object at a path, or of the last object that exists on it."""
    value: Any = scopes
    for depth, key in enumerate(path):
        if not isinstance(value, dict) or key not in value:
            return depth, value
        value = value[key]
    return len(path), value


@dataclass(slots=True)
class _Kept:
    """The values that a condition was evaluated with, converted for the runtime."""

    values: list[tuple[int, Any]]
    activation: Any
    left: int = 100
    """Evaluations that it can still be used for, since it keeps a copy of each item."""

    def is_of(self, values: list[tuple[int, Any]]) -> bool:
        """Check whether these are the same objects."""
        return all(
            depth == other and value is same
            for (depth, value), (other, same) in zip(self.values, values, strict=True)
        )


Converted = dict[str, _Kept]
"""Converted values by the text of their condition. Use it only for the items of one collection,
whose shared values do not change, and drop it afterwards."""


@lru_cache(maxsize=1024)
def compile_condition(text: str) -> Condition:
    """Compile a condition.

    Raises:
        ConditionError: It is malformed, or it uses a name that no condition may use.
        MissingDependencyError: The extra `workflow` is not installed.
    """
    return Condition(text)


_EACH = ("item", "index")
"""The names whose values differ between items."""


class _Current(threading.local):
    """The values of `_EACH` for the evaluation in the current thread.

    Each value is in a list that is reused, because the runtime never frees the result of a
    function.
    """

    def __init__(self) -> None:
        self.lists: dict[str, list[Any]] = {name: [] for name in _EACH}


_current = _Current()


@cache
def _runtime(*, items: bool) -> Any:
    """Return the environment that compiles expressions.

    Args:
        items: whether it has the functions that return `_EACH`, which no condition may call. They
            have no parameters, because the runtime never frees the arguments of a function.
    """
    cel = import_extra("cel_expr_python.cel", extra="workflow", purpose="a condition")

    def function(name: str) -> Any:
        overload = cel.Overload(name, cel.Type.DYN, [], impl=lambda: _current.lists[name])
        return cel.FunctionDecl(f"current_{name}", [overload])

    functions = [function(name) for name in _EACH] if items else []
    return cel.NewEnv(variables=dict.fromkeys(NAMES, cel.Type.DYN), functions=functions)


def _compiled(text: str, *, items: bool) -> Any:
    try:
        return _runtime(items=items).compile(text)
    except (RuntimeError, ValueError, TypeError) as error:
        raise ConditionError(text, *_refusal(text, str(error))) from None


def _refusal(text: str, report: str) -> tuple[str, str]:
    """Return the message and the hint for an expression that does not compile."""
    if match := re.search(r"<input>:(\d+):(\d+): undeclared reference to '(\w+)", report):
        line, column, name = int(match[1]), int(match[2]), match[3]
        if text.split("\n")[line - 1][column - 1 :].startswith("("):
            return f"it calls unknown function {name!r}", did_you_mean(name, _FUNCTIONS)
        dashed = re.search(r"\btasks\.(\w+(?:-\w+)+)", text)
        hint = f'write tasks["{dashed[1]}"]' if dashed else did_you_mean(name, NAMES)
        return f"it uses unknown name {name!r}", hint
    if match := re.search(r"found no matching overload for '(\S+)' applied to '\((.*?)\)'", report):
        return _no_overload(match[1], match[2]), ""
    if "recursion" in report:
        return "it is nested too deeply", ""
    if "size exceeds" in report:
        return "it is longer than 100,000 characters", ""
    if match := re.search(r"<input>:(\d+):(\d+): (?:Syntax error: )?(.*)", report):
        wrong = match[3].partition(" expecting ")[0].removesuffix(" [INVALID_ARGUMENT]")
        unexpected = re.fullmatch(r"(?:mismatched|extraneous) input '(.*)'", wrong) or re.fullmatch(
            r"token recognition error at: '(.*)'?", wrong
        )
        if unexpected:
            word = unexpected[1].strip(" '")
            wrong = "it ends too early" if word == "<EOF>" else f"unexpected {word!r}"
            hint = f"write {_SPELT[word]}" if word in _SPELT else _HINT
            return f"it is malformed: at line {match[1]}, column {match[2]}, {wrong}", hint
        return f"it is malformed: at line {match[1]}, column {match[2]}, {wrong}", _HINT
    return "it is malformed", _HINT


def _no_overload(function: str, types: str | None) -> str:
    name = function if function.isalpha() else repr(function.strip("_@").partition("_")[0])
    if types is None:
        return f"{name} does not take these values"
    while (outer := re.sub(r"\([^()]*\)", "", types)) != types:  # the types within a list
        types = outer
    listed = [_TYPES.get(cel_type, cel_type) for cel_type in types.split(", ")]
    return f"{name} does not take {' and '.join(listed)}"


def _kind(cel_type: Any) -> str:
    name: str = cel_type.name()
    return name.partition("<")[0].lower()


def _described(value: Any) -> str:
    if value is None:
        return "null"
    kinds: dict[type, str] = {
        str: "text",
        int: "an integer",
        float: "a number",
        list: "a list",
        dict: "a mapping",
    }
    return kinds[type(value)]


def _paths(tokens: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield the paths that an expression uses, as far as their keys are literal."""
    for at, token in enumerate(tokens):
        if token not in NAMES or tokens[at - 1 : at] == ["."]:
            continue
        path, ahead = [token], at + 1
        while step := _step(tokens[ahead : ahead + 3]):
            key, length = step
            path.append(key)
            ahead += length
        yield tuple(path)


def _step(ahead: list[str]) -> tuple[str, int] | None:
    """Return the next key of a path and the number of tokens that it takes."""
    match ahead:
        case [".", _, "(", *_]:
            return None  # a function or macro that is called on the path
        case [".", name, *_] if re.fullmatch(r"`.*`|\w+", name):
            return name.strip("`"), 2
        case ["[", text, "]", *_] if re.fullmatch(r"""'[^'\\]+'|"[^"\\]+\"""", text):
            return text[1:-1], 3
    return None
