"""Secrets: the names of keys that hold one, and the rule that their values are templates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, ValidationInfo, WithJsonSchema

from lorebind_config.declarations.base import Fault, Path, RefusedError, leaves

_NAMES = (
    r"(api_?key|(access|private|secret)_?key|token|password|passwd|passphrase|dsn|auth"
    r"|authorization|secret|credentials?|connection_?string)"
)
_SECRET_NAME = re.compile(rf"(^|_){_NAMES}$")
_TEMPLATE = r"\{\{\s*\.(?:env|secrets)\.[A-Za-z_][A-Za-z0-9_]*\s*\}\}"
SECRET_PATTERN = f"^{_TEMPLATE}$"

SECRET_SETTINGS = {
    rf"(^|[^A-Za-z0-9]){_NAMES}$": {
        "type": ["string", "boolean", "null", "array", "object"],
        "pattern": _TEMPLATE,
    }
}
"""`literal_secrets` as JSON Schema, limited to lower-case names at the top of the settings."""


def is_secret_name(name: str) -> bool:
    """Check whether a key holds a secret by its name: `api_key`, `authToken`, not `max_tokens`."""
    return bool(_SECRET_NAME.search(snake_case(name)))


def snake_case(name: str) -> str:
    """Return a name in lower case, with `_` between its words: `auth_token` for `authToken`."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return re.sub(r"[^a-z0-9]+", "_", snake)


def is_secret_path(path: Path) -> bool:
    """Check whether the value at a path must never be shown."""
    return any(isinstance(step, str) and is_secret_name(step) for step in path)


def literal_secrets(config: dict[str, Any]) -> Iterator[Fault]:
    """Yield a fault for each literal secret in free settings, at any depth."""
    for path, value in leaves(config):
        name = next((step for step in reversed(path) if isinstance(step, str)), "")
        # Part of a value may be literal, as in a DSN; a value without a template is a secret.
        is_literal = not (value is None or isinstance(value, bool)) and is_secret_name(name)
        if is_literal and not re.search(_TEMPLATE, str(value)):
            yield _refusal(name, _variable(name), path)


def _refusal(name: str, variable: str, path: Path = ()) -> Fault:
    hint = (
        f'write {name}: "{{{{ .env.{variable} }}}}" and put the value into the environment or .env'
    )
    return Fault(f"{name} holds a literal value", hint, path)


def _variable(name: str) -> str:
    return re.sub(r"\W+", "_", name, flags=re.ASCII).upper()


def _only_a_template(value: str, info: ValidationInfo) -> str:
    if not re.fullmatch(_TEMPLATE, value):
        name = info.field_name or "secret"
        provider = (info.data or {}).get("provider", "")
        owner = f"{provider}_" if provider and provider != "langchain" else ""
        raise RefusedError([_refusal(name, _variable(owner + name))])
    return value


Secret = Annotated[
    str,
    AfterValidator(_only_a_template),
    WithJsonSchema({"type": "string", "pattern": SECRET_PATTERN}),
]
"""A single template, `{{ .env.X }}` or `{{ .secrets.X }}`, without other text."""
