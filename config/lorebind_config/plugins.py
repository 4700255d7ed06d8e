"""Plugins of installed distributions and optional features, imported at their first use."""

from __future__ import annotations

import functools
import importlib
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lorebind_config.errors import MissingDependencyError, PluginError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def import_extra(module: str, *, extra: str, purpose: str) -> Any:
    """Import a module that belongs to an extra of Lorebind.

    Raises:
        MissingDependencyError: with the extra and the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"{purpose} needs the package {error.name!r}; install it with: "
            f"pip install 'lorebind[{extra}]'"
        ) from error


def lazy_door(package: str, modules: Mapping[str, str]) -> tuple[list[str], Callable[[str], Any]]:
    """Return a package's `__all__`, and the `__getattr__` that imports a public name at first use.

    This keeps the packages cheap to import: LangChain and LangGraph take half a second each.
    Type checkers read the same names as `from module import name as name` under `TYPE_CHECKING`.

    Args:
        package: the package's `__name__`.
        modules: the public names of each module, separated by spaces; a module that begins with
            a dot is below the package.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def __getattr__(name: str) -> Any:  # noqa: N807  # the name under which the package binds it
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes[name], package), name)

    return sorted(homes), __getattr__


Group: TypeAlias = Literal[
    "embedders",
    "sparse_embedders",
    "vector_dbs",
    "sources",
    "loaders",
    "document_transforms",
    "chunkers",
    "rerankers",
    "tokenizers",
    "extensions",
    "engines",
    "commands",
]
"""The last part of an entry-point group's name, as in `lorebind.embedders`."""

_loading = threading.RLock()  # reentrant: the import of a plugin may load another one
_registered: dict[tuple[Group, str], Any] = {}
_built_in: defaultdict[Group, dict[str, str]] = defaultdict(dict)


@dataclass(frozen=True, slots=True)
class PluginOffer:
    """An entry point, which is not imported yet."""

    group: Group
    name: str
    """The word that selects the plugin: `acme` for `provider: acme`."""
    distribution: str
    """The name and version of the distribution, for messages."""
    entry_point: EntryPoint | None
    """None for a plugin that the program itself registered; see `register`."""

    def __str__(self) -> str:
        return f"{self.name!r} of lorebind.{self.group} ({self.distribution})"


@functools.cache
def offers(group: Group) -> Mapping[str, tuple[PluginOffer, ...]]:
    """Return all plugins of a group, by name; several for the same name are a collision.

    They are looked up once per process. Later installations are visible to the next process.
    """
    plugins: dict[str, tuple[PluginOffer, ...]] = {
        name: (PluginOffer(group, name, "registered by the program", None),)
        for where, name in _registered
        if where == group
    }
    for entry in _installed():
        if entry.group != f"lorebind.{group}":
            continue
        dist = entry.dist
        owner = f"{dist.name} {dist.version}" if dist else "an unnamed distribution"
        offer = PluginOffer(group, entry.name, owner, entry)
        there = plugins.get(entry.name, ())
        if offer not in there:  # a folder that is on the path twice lists its plugins twice
            plugins[entry.name] = (*there, offer)
    return plugins


@functools.cache
def _installed() -> list[EntryPoint]:
    """Return the entry points of all groups of Lorebind.

    Of a distribution that is on the path several times, the first counts.
    """
    # Here, because it takes a third of the start of a process that reads documents.
    from importlib.metadata import Distribution, distributions

    offering: dict[str, Distribution] = {}
    for dist in distributions():
        # To parse the entry points of all distributions takes twice as long as to read them.
        if "[lorebind." in (dist.read_text("entry_points.txt") or ""):
            offering.setdefault(dist.name, dist)
    return [entry for dist in offering.values() for entry in dist.entry_points]


def register_built_in(kinds: Mapping[Group, Mapping[str, str]]) -> None:
    """Register Lorebind's own kinds: the module of each, by its name.

    Each package of Lorebind registers its kinds when it is imported. They are not entry points,
    because a checkout or a frozen program has no package metadata.
    """
    for group, modules in kinds.items():
        _built_in[group].update(modules)


def built_in(group: Group) -> Mapping[str, str]:
    """Return Lorebind's own kinds of a group: the module of each, by its name.

    Raises:
        RuntimeError: only the package of the configuration was imported, which has no kinds.
    """
    if not _built_in:
        raise RuntimeError("no kind is registered; import lorebind before a project is read")
    return _built_in.get(group, {})


def offered(group: Group, name: str) -> PluginOffer | None:
    """Return the plugin or built-in kind with a name, or None if there is none.

    Args:
        group: the group to search.
        name: the name of the plugin.

    Raises:
        PluginError: two distributions claim the name, so that it is ambiguous.
    """
    claims = offers(group).get(name, ())
    if module := built_in(group).get(name):
        from importlib.metadata import EntryPoint

        entry = EntryPoint(name, module, f"lorebind.{group}")
        claims = (PluginOffer(group, name, "Lorebind itself", entry), *claims)
    if len(claims) > 1:
        owners = " and by ".join(offer.distribution for offer in claims)
        raise PluginError(
            f"{name!r} of lorebind.{group} is claimed by {owners}; uninstall all but one of them"
        )
    return claims[0] if claims else None


def load(offer: PluginOffer, members: Collection[str]) -> Any:
    """Return the plugin itself, imported at the first call.

    Args:
        offer: the plugin to load.
        members: the attributes that a plugin of its group must have.

    Raises:
        PluginError: the plugin cannot be imported or lacks a member.
    """
    # `functools.cache` may call a function twice if two threads ask at once.
    with _loading:
        plugin = _loaded(offer)
    lacking = [name for name in members if not hasattr(plugin, name)]
    if lacking:
        raise PluginError(
            f"plugin {offer} has no {' and no '.join(map(repr, lacking))}, "
            f"which every plugin of lorebind.{offer.group} must have"
        )
    return plugin


@functools.cache
def _loaded(offer: PluginOffer) -> Any:
    if offer.entry_point is None:
        return _registered[offer.group, offer.name]
    try:
        return offer.entry_point.load()
    except Exception as error:  # a third party's module can raise anything when it is imported
        raise PluginError(
            f"plugin {offer} cannot be loaded from {offer.entry_point.value!r}: "
            f"{type(error).__name__}: {error}"
        ) from error


def register(group: Group, name: str, plugin: Any) -> None:
    """Register a plugin without a distribution, for notebooks, scripts and tests.

    Projects that are loaded later can use it. A plugin with the same name is replaced.
    """
    _registered[group, name] = plugin
    forget()


def unregister(group: Group, name: str) -> None:
    """Remove a registered plugin; do nothing if it is not registered."""
    _registered.pop((group, name), None)
    forget()


def forget() -> None:
    """Look up installed plugins again: for tests, and for programs that install at runtime."""
    offers.cache_clear()
    _installed.cache_clear()
    _loaded.cache_clear()
