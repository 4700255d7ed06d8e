"""Finds the hosts that settings name, without the values of the process's own variables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from lorebind_config.checks.template_checks import texts
from lorebind_config.declarations.base import Declaration, Path
from lorebind_config.declarations.secrets import is_secret_name, snake_case
from lorebind_config.templates import language as templates
from lorebind_config.templates.environment import Environment
from lorebind_config.templates.language import Reference

_ADDRESS_NAME = re.compile(
    r"(^|_)(ur[il]s?|dsn|endpoints?|hosts?|hostname|hostaddr|nodes?|server|address|domain|proxy"
    r"|base|connection(_?string)?|conninfo)$"
)
"""Names of settings that are an address, also where their value has no `://`."""
_AUTHORITY = re.compile(r"(?:^|:)//([^/?#\s;]*)")
_HOST_OF_DSN = re.compile(
    r"""(?:^|[\s?&'])(?:host|hostaddr|service)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|([^\s&]+))"""
)
"""The parameters by which a PostgreSQL DSN names its host; in a URL, they override it. A URL may
encode their names; elsewhere, there may be blanks around `=`, and quotes around values."""
_UNKNOWN = 0xE000
"""The first character of a private range, one of which stands for each value that is not shown."""


def hosts_of(declarations: Iterable[Declaration], environment: Environment) -> list[str]:
    """Return the hosts that declarations name, each once, as words or as `host:port`."""
    found: dict[str, None] = {}
    for declared in declarations:
        for field in declared.templated:
            for path, text in texts(getattr(declared, field)):
                found |= dict.fromkeys(_hosts(text, (field, *path), environment))
    return list(found)


def filled_in(text: str, environment: Environment) -> tuple[str, list[Reference]]:
    """Fill in the variables of `.env`; a private character stands for each other template.

    A variable that the process sets is not filled in, even if `.env` has it too.
    """
    unknown: list[Reference] = []
    filled = []
    for part in templates.parts(text):
        value: str | None = part if isinstance(part, str) else None
        if isinstance(part, tuple) and part[0] in ("env", "secrets"):
            value = environment.in_file(".".join(part[1:]))
        if value is None and isinstance(part, tuple):
            value = chr(_UNKNOWN + len(unknown))
            unknown.append(part)
        filled.append(value or "")
    return "".join(filled), unknown


def with_names(filled: str, unknown: list[Reference]) -> str:
    """Put the templates that `filled_in` did not fill in back into its text."""
    for number, reference in enumerate(unknown):
        filled = filled.replace(chr(_UNKNOWN + number), templates.as_template(reference))
    return filled


def _hosts(text: str, path: Path, environment: Environment) -> Iterator[str]:
    name = next((step for step in reversed(path) if isinstance(step, str)), "")
    is_address, is_secret = bool(_ADDRESS_NAME.search(snake_case(name))), is_secret_name(name)
    if is_secret and not is_address:
        return  # nothing of it is ever shown
    filled, unknown = filled_in(text, environment)
    hosts = [authority.rpartition("@")[2] for authority in _AUTHORITY.findall(filled)]
    if is_address:
        hosts += [quoted or plain for quoted, plain in _HOST_OF_DSN.findall(unquote(filled))]
    if is_address and not hosts and (not is_secret or len(filled) == len(unknown)):
        hosts = [re.split("[/?#]", filled, maxsplit=1)[0].rpartition("@")[2]]
    for host in filter(None, hosts):
        alone = ord(host) - _UNKNOWN if len(host) == 1 else -1
        if 0 <= alone < len(unknown):
            yield _in_words(unknown[alone], environment)
        else:
            words = with_names(host, unknown)
            yield words if words.isascii() else ascii(words)  # letters of other scripts look alike


def _in_words(reference: Reference, environment: Environment) -> str:
    scope, *names = reference
    if scope not in ("env", "secrets"):
        return f"the host in {templates.as_template(reference)}"
    name = ".".join(names)
    if environment.is_of_process(name):
        return f"the host in the variable {name} of your environment"
    return f"the host in the variable {name}, which is not set"
