"""Loaders of plugins, chosen like built-in ones: by media type and file extension.

A plugin of the group `lorebind.loaders` has `suffixes` (such as `.odt`), `media_types` and
`load(data, uri)`, which returns a `LoadedDocument`. Projects do not need to name it: it reads
formats that could not be read otherwise, and may not claim one that another loader reads.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from lorebind_config import plugins
from lorebind_config.errors import LorebindError, PluginError, SourceError
from lorebind_knowledge.loaders.base import MAX_CHARACTERS, LoadedDocument

_MEMBERS = ("suffixes", "media_types", "load")


@dataclass(frozen=True, slots=True)
class _Table:
    """The media types and extensions that plugins claim, and the plugins that are broken."""

    claims: dict[str, list[tuple[plugins.PluginOffer, Any]]] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)


@functools.cache
def _claimed(offers: tuple[plugins.PluginOffer, ...]) -> _Table:
    table = _Table()
    for offer in offers:
        try:
            plugin = plugins.load(offer, _MEMBERS)
            words = {word.lower() for word in (*plugin.suffixes, *plugin.media_types)}
        except PluginError as error:
            table.broken.append(str(error))
            continue
        for word in sorted(words):
            table.claims.setdefault(word, []).append((offer, plugin))
    return table


def _installed() -> _Table:
    found = plugins.offers("loaders").values()
    every = (offer for offers in found for offer in offers)
    return _claimed(tuple(sorted(every, key=str)))


def claims(built_in: Collection[str]) -> list[str]:
    """Return the problems of the installed loaders, for `doctor`; empty if all can be used.

    Args:
        built_in: the media types and extensions that Lorebind reads itself.
    """
    table = _installed()
    collisions = []
    for word in table.claims:
        try:
            _claim(word, built_in)
        except PluginError as error:
            collisions.append(str(error))
    return [*table.broken, *collisions]


def plugged_suffixes() -> list[str]:
    """Return the extensions that plugins read, sorted."""
    return sorted(word for word in _installed().claims if word.startswith("."))


def broken_loaders() -> list[str]:
    """Return the errors of plugins that cannot be loaded, whose formats are unknown."""
    return _installed().broken


def load_plugged(
    data: bytes, uri: str, words: tuple[str, ...], built_in: Collection[str]
) -> LoadedDocument | None:
    """Load a document with a plugin; return None if no plugin reads its format.

    Args:
        data: the whole document.
        uri: its path or URL.
        words: its media type and extension; the first that has a loader decides.
        built_in: the media types and extensions that Lorebind reads itself.

    Raises:
        SourceError: two plugins claim the format, or the plugin cannot read the document.
    """
    if not plugins.offers("loaders"):
        return None
    try:
        found = next((_claim(word, built_in) for word in words if _is_known(word, built_in)), None)
    except PluginError as error:
        raise SourceError(f"{uri}: {error}") from error
    if found is None:
        return None
    offer, plugin = found
    try:
        document = plugin.load(data, uri)
    except LorebindError:
        raise
    except Exception as error:  # plugins can raise anything
        raise SourceError(
            f"{uri}: the loader {offer} cannot read it: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(document, LoadedDocument):
        raise SourceError(f"{uri}: the loader {offer} returned a {type(document).__name__}")
    if len(document.text) > MAX_CHARACTERS:
        raise SourceError(f"{uri}: its text is longer than {MAX_CHARACTERS:,} characters; split it")
    return document


def _is_known(word: str, built_in: Collection[str]) -> bool:
    return word in built_in or word in _installed().claims


def _claim(word: str, built_in: Collection[str]) -> tuple[plugins.PluginOffer, Any] | None:
    """Return the plugin that claims a format; None if Lorebind reads it itself."""
    found = _installed().claims.get(word, [])
    if len(found) + (word in built_in) > 1:
        owners = ["Lorebind itself"] * (word in built_in) + [str(offer) for offer, _ in found]
        raise PluginError(
            f"{word!r} is claimed by the loaders {' and '.join(owners)}; uninstall all but one"
        )
    return found[0] if found else None
