"""Variables of the process and of the project's `.env`; read by name, never listed."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from lorebind_config.errors import ConfigurationError, Problem
from lorebind_config.templates import language as templates
from lorebind_config.templates.language import LazyScope, TracedText, UnsetVariableError


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

    def confided_scopes(self) -> dict[str, LazyScope]:
        """Return the same scopes with `TracedText` values, which know how to be shown."""
        return {name: _Confided(self, name) for name in self.scopes()}

    def fill(self, value: Any) -> Any:
        """Replace each `{{ .env.X }}` and `{{ .secrets.X }}` in a value; see `templates.fill`.

        Raises:
            TemplateError: A template uses another scope, or a variable that is not set.
        """
        return templates.fill(value, self.scopes())

    def not_set(self, name: str) -> UnsetVariableError:
        """Return the error for a missing variable. Only names in `.env` are suggested."""
        near = difflib.get_close_matches(name, sorted(self._file), n=1, cutoff=0.6)
        guess = f"did you mean {near[0]!r}; " if near else ""
        return UnsetVariableError(
            f"variable {name} is not set", f"{guess}set it in the environment or in .env"
        )

    @cached_property
    def _file(self) -> dict[str, str | None]:
        file = self.root / ".env"
        if not file.is_file():
            return {}
        from dotenv import dotenv_values

        try:
            return dict(dotenv_values(file, interpolate=False, encoding="utf-8"))
        except UnicodeDecodeError:
            problem = Problem(".env", 1, 1, "the file is not UTF-8")
        except OSError as error:
            problem = Problem(".env", 0, 0, f"the file cannot be read: {error.strerror}")
        raise ConfigurationError([problem])


class _Variables(LazyScope):
    """A template scope that reads the variables of an environment."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def __getitem__(self, name: str) -> str:
        value = self._environment.lookup(name)
        if value is None:
            raise self._environment.not_set(name)
        return value


class _Confided(_Variables):
    """A scope whose values know the template that stands for them, such as `{{ .env.X }}`."""

    def __init__(self, environment: Environment, scope: str) -> None:
        super().__init__(environment)
        self._scope = scope

    def __getitem__(self, name: str) -> str:
        value, template = super().__getitem__(name), templates.as_template((self._scope, name))
        return TracedText(value, template, {value: template}) if value else value
