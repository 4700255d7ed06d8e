"""What installed distributions offer to Lorebind: entry points, found by name, loaded when used.

A plugin is what an entry point of one of the groups names: a module, a class or any other object
with the members that its group asks for. Finding the names imports nothing of a plugin. What is
built into Lorebind is loaded in the same way, from tables of names.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lorebind_knowledge.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from importlib.metadata import EntryPoint

Group: TypeAlias = Literal[
    "embedders",
    "vector_dbs",
    "sources",
    "loaders",
    "chunkers",
    "rerankers",
    "tokenizers",
    "extensions",
]
"""The last part of an entry-point group's name, `lorebind.embedders` and so on."""

_loading = threading.RLock()
_registered: dict[tuple[Group, str], Any] = {}


@dataclass(frozen=True, slots=True)
class Offer:
    """One entry point. Nothing of it is imported yet."""

    group: Group
    name: str
    """The word that chooses it: `acme` for `provider: acme`."""
    distribution: str
    """Name and version of what brought it, for messages."""
    entry_point: EntryPoint | None
    """None for what the program itself offers, see `register`."""

    def __str__(self) -> str:
        return f"{self.name!r} of lorebind.{self.group} ({self.distribution})"


@functools.cache
def offers(group: Group) -> Mapping[str, tuple[Offer, ...]]:
    """All that is offered to a group, by name; more than one for a name is a collision.

    Looked up once per process: what is installed later is seen by the next one.
    """
    found: dict[str, tuple[Offer, ...]] = {
        name: (Offer(group, name, "registered by the program", None),)
        for where, name in _registered
        if where == group
    }
    for entry in _installed().select(group=f"lorebind.{group}"):
        offer = Offer(group, entry.name, _named(entry), entry)
        there = found.get(entry.name, ())
        if offer not in there:  # a folder that is on the path twice lists what it holds twice
            found[entry.name] = (*there, offer)
    return found


@functools.cache
def _installed() -> Any:  # of another type in each version of Python
    """All entry points: to read those of one group takes as long."""
    from importlib.metadata import entry_points

    return entry_points()


def _named(entry: EntryPoint) -> str:
    return (
        "an unnamed distribution"
        if entry.dist is None
        else f"{entry.dist.name} {entry.dist.version}"
    )


def offered(group: Group, name: str, built_in: Mapping[str, str]) -> Offer | None:
    """What is offered under a name, None where nothing is.

    Args:
        group: where it is looked for.
        name: the word.
        built_in: what Lorebind offers itself: by name, the module.

    Raises:
        PluginError: two claim the name: which of them is meant nobody can tell.
    """
    claims = offers(group).get(name, ())
    if name in built_in:
        from importlib.metadata import EntryPoint

        entry = EntryPoint(name, built_in[name], f"lorebind.{group}")
        claims = (Offer(group, name, "Lorebind itself", entry), *claims)
    if len(claims) > 1:
        owners = " and by ".join(offer.distribution for offer in claims)
        raise PluginError(
            f"{name!r} of lorebind.{group} is claimed by {owners}; uninstall all but one of them"
        )
    return claims[0] if claims else None


def load(offer: Offer, members: Collection[str]) -> Any:
    """The plugin itself, imported now unless it was before.

    Args:
        offer: what to load.
        members: what it must have to be a plugin of its group.

    Raises:
        PluginError: it cannot be imported or lacks a member.
    """
    with _loading:
        plugin = _loaded(offer)
    lacking = [name for name in members if not hasattr(plugin, name)]
    if lacking:
        raise PluginError(
            f"plugin {offer} has no {' and no '.join(map(repr, lacking))}, "
            f"which every plugin of lorebind.{offer.group} has"
        )
    return plugin


@functools.cache
def _loaded(offer: Offer) -> Any:
    if offer.entry_point is None:
        return _registered[offer.group, offer.name]
    try:
        return offer.entry_point.load()
    except Exception as error:  # whatever a third party's module raises when it is imported
        raise PluginError(
            f"plugin {offer} cannot be loaded from {offer.entry_point.value!r}: "
            f"{type(error).__name__}: {error}"
        ) from error


def register(group: Group, name: str, plugin: Any) -> None:
    """Offer a plugin without a distribution: in a notebook, a script, a test.

    It is seen by projects that are loaded afterwards. The same name again replaces it.
    """
    _registered[group, name] = plugin
    forget()


def unregister(group: Group, name: str) -> None:
    """Take back what was registered; nothing happens if it was not."""
    _registered.pop((group, name), None)
    forget()


def forget() -> None:
    """Look again for what is installed: for tests, and for who installs while running."""
    offers.cache_clear()
    _installed.cache_clear()
    _loaded.cache_clear()
