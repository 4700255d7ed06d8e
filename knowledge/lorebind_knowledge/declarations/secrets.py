"""Secrets: which names stand for one, and that only a template may be written there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, ValidationInfo, WithJsonSchema

from lorebind_knowledge.declarations.base import Fault, Path, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

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
"""What JSON Schema says of `literal_secrets`: names in lower case, at the top of the settings."""


def is_secret_name(name: str) -> bool:
    """Whether a key of this name holds a secret: `api_key`, `authToken`, but not `max_tokens`."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return bool(_SECRET_NAME.search(re.sub(r"[^a-z0-9]+", "_", snake)))


def is_secret_path(path: Path) -> bool:
    """Whether what stands at the path must never be shown."""
    return any(isinstance(step, str) and is_secret_name(step) for step in path)


def literal_secrets(config: dict[str, Any]) -> Iterator[Fault]:
    """What is wrong with free settings that hold a secret as it is, at any depth."""
    return _literals(config, ())


def _literals(value: Any, path: Path) -> Iterator[Fault]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _literals(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _literals(item, (*path, index))
    elif value is not None and not isinstance(value, bool):
        name = next((step for step in reversed(path) if isinstance(step, str)), "")
        # A part may be fixed, as in a DSN; a text without any template is a secret written down.
        if is_secret_name(name) and not re.search(_TEMPLATE, str(value)):
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
"""One template, `{{ .env.X }}` or `{{ .secrets.X }}`, and nothing else."""
