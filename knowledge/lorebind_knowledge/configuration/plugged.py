"""What plugins make: given an environment that knows which secrets it handed out, and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_knowledge.configuration.make_part import PartEnvironment
from lorebind_knowledge.declarations.places import PLACES
from lorebind_knowledge.errors import LorebindError, PluginError

if TYPE_CHECKING:
    from collections.abc import Collection

    from lorebind_knowledge.declarations.base import Declaration
    from lorebind_knowledge.plugins import Group


PluginEnvironment = PartEnvironment


def make_plugged(
    group: Group,
    declaration: Declaration,
    environment: PluginEnvironment,
    members: Collection[str],
    failure: type[LorebindError],
) -> Any:
    """What the plugin makes that a declaration names.

    Args:
        group: the group of the plugin.
        declaration: one of the plugin's own.
        environment: what it may look up.
        members: what its work must have.
        failure: what is raised when it cannot be made with what was declared.

    Raises:
        PluginError: there is no such plugin, or what it makes is not what its group wants.
    """
    word = getattr(declaration, declaration.kind_key)
    plugin = PLACES[group].kind(word)
    if plugin is None:
        raise PluginError(f"no plugin {word!r} of lorebind.{group} is installed any more")
    what = f"{declaration.label} {getattr(declaration, 'id', word)!r}"
    try:
        made = plugin.make(declaration, environment)
    except LorebindError:
        raise
    except Exception as error:  # whatever a third party's code raises
        raise failure(f"{what} cannot be made by its plugin: {environment.say(error)}") from error
    lacking = [name for name in members if not hasattr(made, name)]
    if lacking:
        raise PluginError(
            f"{what}: plugin {word!r} of lorebind.{group} made a {type(made).__name__} "
            f"without {', '.join(lacking)}"
        )
    return made
