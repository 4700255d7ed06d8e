"""Hooks of the documentation site; `make docs` fails when a public name has no docstring."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scripts.docs.public_names import undocumented

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

log = logging.getLogger("mkdocs.hooks.lorebind")


def on_pre_build(config: MkDocsConfig) -> None:
    """Warn about each public name without a docstring; a strict build ends at a warning."""
    for path in undocumented():
        log.warning("%s has no docstring", path)
