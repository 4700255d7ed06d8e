"""Templates in the style of Go, `{{ .scope.path.to.key }}`; they look up names and run no code."""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from lorebind_config.errors import ConfigurationError, Problem, UsageError, did_you_mean, nearest

Reference: TypeAlias = tuple[str, ...]
"""The names of a template: `{{ .env.HOME }}` is ("env", "HOME")."""

_TEMPLATE = re.compile(r"\{\{\s*((?:\.[A-Za-z0-9_-]+)+)\s*\}\}")
_MOST_PARTS = 64
"""Maximum number of names that are tried as a single key."""

SCOPES = (
    *("env", "secrets", "workflow", "tasks", "input"),
    *("state", "item", "index", "error", "output"),
)
"""The first names that templates may use; not all of them are available everywhere."""

ANYTHING = object()
"""A value that only a run of a workflow knows; in a scope, any path below it is defined."""


class TemplateError(UsageError):
    """A template is malformed, or uses a name that is not defined."""


class UnsetVariableError(TemplateError):
    """A template uses a variable that is not set."""


class MalformedTemplateError(TemplateError):
    """A `{{` starts something that is not a template."""


class LazyScope(ABC):
    """A scope that looks up its names one by one and cannot be listed."""

    @abstractmethod
    def __getitem__(self, name: str) -> Any:
        """Return the value of a name.

        Raises:
            TemplateError: The name is not defined.
        """


class HintingScope(dict[str, Any]):
    """A scope that tells what to do about a name that has no value yet."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        super().__init__(values or {})
        self.hints: dict[str, str] = {}


class TracedText(str):
    """The value of an `env` or `secrets` template, or a string that such a value was put into."""

    __slots__ = ("display", "values")

    display: str
    """The string for display: `https://{{ .env.HOST }}/a` for `https://h.example/a`."""
    values: Mapping[str, str]
    """The variables' values in the string, each mapped to its template."""

    def __new__(cls, text: str, display: str, values: Mapping[str, str]) -> TracedText:
        traced = super().__new__(cls, text)
        traced.display, traced.values = display, values
        return traced


def plain(value: Any) -> Any:
    """Return a value with `TracedText` as plain strings, at any depth of mappings and lists."""
    return _each(value, str)


def for_display(value: Any) -> Any:
    """Return a value with templates in place of the values of variables, for display."""
    return _each(value, lambda text: text.display)


def values_in(value: Any) -> dict[str, str]:
    """Return the variables' values that a value contains, each mapped to its template."""
    values: dict[str, str] = {}
    _each(value, lambda text: values.update(text.values))
    return values


def _each(value: Any, change: Callable[[TracedText], Any]) -> Any:
    if isinstance(value, TracedText):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _each(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_each(item, change) for item in value]
    return value


def references(text: str) -> list[Reference]:
    """Return the references of all templates in a text, in order.

    Raises:
        MalformedTemplateError: A `{{` starts something that is not a template.
    """
    return [part for part in parts(text) if isinstance(part, tuple)]


def fill(value: Any, scopes: Mapping[str, Any]) -> Any:
    """Replace every template in a value: in strings, at any depth of mappings and lists.

    A string that consists of one template becomes the value itself, of any type. In a longer
    string, None is written as nothing, a mapping or list as JSON, and any other value with `str`.
    Templates in the inserted values are not replaced, nor are those in keys of mappings. A string
    becomes `TracedText` if a `TracedText` value is inserted.

    Args:
        value: A string, mapping or sequence; any other value is returned as it is.
        scopes: Values by the first name of a template.

    Raises:
        TemplateError: A template is malformed, or a name is not defined; the message names it.
    """
    if isinstance(value, str):
        return _resolve_text(value, scopes)
    if isinstance(value, Mapping):
        return {key: fill(item, scopes) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [fill(item, scopes) for item in value]
    return value


def mentions(text: str) -> list[Reference]:
    """Return the references of the well-formed templates in a string; ignore malformed ones."""
    return [tuple(match[1][1:].split(".")) for match in _TEMPLATE.finditer(text)]


def looks_like_one(text: str) -> bool:
    """Return whether a string seems to contain templates, in a field that takes none."""
    return any(reference[0] in SCOPES for reference in mentions(text))


def look_up(reference: Reference, scopes: Mapping[str, Any]) -> Any:
    """Return the value of a reference: keys of mappings and indices of lists, never attributes.

    Ids may contain dots: if `a` is not a key, `a.b` is tried, up to 64 names.

    Raises:
        TemplateError: A name is not defined.
    """
    value: Any = scopes
    at = 0
    while at < len(reference) and value is not ANYTHING:
        value, at = _step(value, reference, at)
    if isinstance(value, LazyScope):
        raise TemplateError(
            f"{as_template(reference)} does not name a variable",
            f"write {as_template((*reference, 'NAME'))}",
        )
    return value


def _step(value: Any, reference: Reference, at: int) -> tuple[Any, int]:
    if isinstance(value, LazyScope):
        return value[".".join(reference[at:])], len(reference)
    if isinstance(value, Mapping):
        for end in range(at + 1, min(at + _MOST_PARTS, len(reference)) + 1):
            if (key := ".".join(reference[at:end])) in value:
                return value[key], end
    elif isinstance(value, list | tuple):
        name = reference[at]
        # Check the length first: int() raises for strings of thousands of digits.
        if name.isdecimal() and len(name) < 10 and int(name) < len(value):
            return value[int(name)], at + 1
    raise _undefined(value, reference, at)


def _undefined(value: Any, reference: Reference, at: int) -> TemplateError:
    name = reference[at]
    before = "." + ".".join(reference[:at])
    if isinstance(value, Mapping):
        holder = f"{before} has no {name!r}" if at else f"there is no scope {name!r} here"
        hint = value.hints.get(name, "") if isinstance(value, HintingScope) else ""
        hint = hint or did_you_mean(name, [key for key in value if isinstance(key, str)])
    elif isinstance(value, list | tuple):
        holder, hint = f"{before} is a list of {len(value)} without {name!r}", ""
    else:
        kind = "empty" if value is None else f"of type {type(value).__name__}"
        holder, hint = f"{before} is {kind} and has no {name!r}", ""
    return TemplateError(f"{as_template(reference)} is not defined: {holder}", hint)


def _resolve_text(text: str, scopes: Mapping[str, Any]) -> Any:
    pieces = list(parts(text))
    if len(pieces) == 1 and isinstance(pieces[0], tuple):
        return look_up(pieces[0], scopes)
    items = [piece if isinstance(piece, str) else look_up(piece, scopes) for piece in pieces]
    filled = "".join(map(as_text, map(plain, items)))
    values = values_in(items)
    if not values:
        return filled
    return TracedText(filled, "".join(map(as_text, map(for_display, items))), values)


def as_text(value: Any) -> str:
    """Return a value as a template within a longer text inserts it, see `fill`."""
    if value is None:
        return ""
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return str(value)


def parts(text: str) -> Iterator[str | Reference]:
    """Split a text into the strings between its templates and the references of the templates.

    Raises:
        MalformedTemplateError: A `{{` starts something that is not a template.
    """
    at = 0
    while (start := text.find("{{", at)) >= 0:
        match = _TEMPLATE.match(text, start)
        if match is None:
            raise _malformed(text[start:])
        if start > at:
            yield text[at:start]
        yield tuple(match[1][1:].split("."))
        at = match.end()
    if at < len(text):
        yield text[at:]


def _malformed(text: str) -> MalformedTemplateError:
    start, end, _ = text.partition("}}")
    if not end:
        message = "a template is opened by '{{' but not closed"
        return MalformedTemplateError(message, "end it with '}}'")
    hint = "write {{ .scope.name }}, for example {{ .env.NAME }}"
    return MalformedTemplateError(f"{start}{end} is not a template", hint)


def injected_variable(inject_as: str) -> Reference:
    """Return the reference by which a prompt may place a block of passages; empty for a label.

    `{{ .workflow.vars.x }}` is ("workflow", "vars", "x"), and `context_docs` is ("context_docs",).
    """
    if "{{" in inject_as:
        return references(inject_as)[0]
    names = re.fullmatch("[A-Za-z0-9_-]+", inject_as) and inject_as not in SCOPES
    return (inject_as,) if names else ()


def as_template(reference: Reference) -> str:
    return "{{ ." + ".".join(reference) + " }}"


class Environment:
    """The variables that `{{ .env.X }}` and `{{ .secrets.X }}` refer to.

    Both scopes read the variables of the process first, then `.env` in the project folder. Values
    of both scopes are confidential and must not be shown.

    Args:
        root: The project folder.
        environ: Variables to use instead of those of the process.
    """

    def __init__(self, root: Path, environ: Mapping[str, str] | None = None) -> None:
        self.root = root
        self._environ = os.environ if environ is None else environ

    def __repr__(self) -> str:
        return f"Environment({str(self.root)!r})"

    def lookup(self, name: str) -> str | None:
        """Return the value of a variable, or None if it is not set. The process overrides `.env`.

        Raises:
            ConfigurationError: The file `.env` cannot be read.
        """
        value = self._environ.get(name)
        return self._file.get(name) if value is None else value

    def is_of_process(self, name: str) -> bool:
        """Return whether the process sets a variable; its value is not for display."""
        return self._environ.get(name) is not None

    def in_file(self, name: str) -> str | None:
        """Return the value of a variable that only a readable `.env` sets, otherwise None."""
        try:
            return None if self.is_of_process(name) else self._file.get(name)
        except ConfigurationError:
            return None

    def scopes(self) -> dict[str, LazyScope]:
        """Return the template scopes `env` and `secrets`, which read variables on demand."""
        variables = _Variables(self)
        return {"env": variables, "secrets": variables}

    def traced_scopes(self) -> dict[str, LazyScope]:
        """Return the same scopes with `TracedText` values, which know how to be shown."""
        return {name: _Variables(self, name) for name in self.scopes()}

    def fill(self, value: Any) -> Any:
        """Replace each `{{ .env.X }}` and `{{ .secrets.X }}` in a value; see `templates.fill`.

        Raises:
            TemplateError: A template uses another scope, or a variable that is not set.
        """
        return fill(value, self.scopes())

    def not_set(self, name: str) -> UnsetVariableError:
        """Return the error for a missing variable. Only names in `.env` are suggested."""
        near = nearest(name, self._file)
        guess = f"did you mean {near!r}; " if near else ""
        return UnsetVariableError(
            f"variable {name} is not set", f"{guess}set it in the environment or in .env"
        )

    @cached_property
    def _file(self) -> dict[str, str | None]:
        file = self.root / ".env"
        if not file.is_file():
            return {}
        from dotenv import dotenv_values  # takes 7 ms, and many projects have no such file

        try:
            return dict(dotenv_values(file, interpolate=False, encoding="utf-8"))
        except UnicodeDecodeError:
            problem = Problem(".env", 1, 1, "the file is not UTF-8")
        except OSError as error:
            problem = Problem(".env", 0, 0, f"the file cannot be read: {error.strerror}")
        raise ConfigurationError([problem])


class _Variables(LazyScope):
    """A scope that reads the variables of an environment, under its name as `TracedText`."""

    def __init__(self, environment: Environment, scope: str = "") -> None:
        self._environment, self._scope = environment, scope

    def __getitem__(self, name: str) -> str:
        value = self._environment.lookup(name)
        if value is None:
            raise self._environment.not_set(name)
        if not (self._scope and value):
            return value
        template = as_template((self._scope, name))
        return TracedText(value, template, {value: template})
