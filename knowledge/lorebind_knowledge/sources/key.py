"""The key of a source: its name in the ledger and in reports, as declared, without passwords."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lorebind_config.declarations.secrets import is_secret_path
from lorebind_config.identity import digest
from lorebind_config.redaction import HIDDEN
from lorebind_knowledge.sources.web_address import without_credentials

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lorebind_config.declarations.base import Path
    from lorebind_config.declarations.sources import SourceBase

_LONGEST = 200


def key_of(declaration: SourceBase) -> str:
    """Return the key of a declared source. It does not depend on the values of templates."""
    names = declaration.names
    if names is None:
        names = list(_settings(declaration.written()))
    word = getattr(declaration, declaration.kind_key)
    key = f"{word}:{','.join(map(without_credentials, names))}"
    return key if len(key) <= _LONGEST else f"{key[: _LONGEST - 20]}... {digest(key)[:12]}"


def mark(config: Mapping[str, Any]) -> list[str]:
    """Return a short digest of the settings in a list; an empty list if there are none."""
    return [digest(json.dumps(config, sort_keys=True))[:8]] if config else []


def _settings(written: Any, path: Path = ()) -> Iterator[str]:
    """Yield each setting as `config.folder=notes`; values under names of secrets are hidden."""
    if isinstance(written, dict):
        for name, value in written.items():
            if (*path, name) not in (("type",), ("max_bytes",)):
                yield from _settings(value, (*path, name))
    else:
        shown = HIDDEN if is_secret_path(path) else json.dumps(written, ensure_ascii=False)
        yield f"{'.'.join(map(str, path))}={shown}"
