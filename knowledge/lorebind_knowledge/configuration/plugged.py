"""What plugins make: given an environment that knows which secrets it handed out, and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_knowledge.configuration import confided, templates
from lorebind_knowledge.configuration.environment import Environment
from lorebind_knowledge.declarations.plugging import PLACES
from lorebind_knowledge.errors import LorebindError, PluginError
from lorebind_knowledge.redaction import said_by

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lorebind_knowledge.declarations.base import Declaration
    from lorebind_knowledge.plugins import Group


class PluginEnvironment(Environment):
    """The project's environment as one plugin sees it.

    `root` is the project folder; `fill` fills in the templates of a value of the declaration,
    `lookup` gives one variable. Messages of the plugin's exceptions show the template instead of
    the value.
    """

    def __init__(self, environment: Environment, scopes: Mapping[str, Any] | None = None) -> None:
        """
        Args:
            environment: the project's.
            scopes: further scopes of templates, such as `workflow`.
        """
        super().__init__(environment.root)
        self._inner = environment
        self._further = confided.plain(scopes or {})
        self.told = confided.values_in(scopes or {})
        """The values that were given, each with its template."""

    def lookup(self, name: str) -> str | None:
        value = self._inner.lookup(name)
        if value:
            self.told[value] = templates.shown(("env", name))
        return value

    def scopes(self) -> dict[str, Any]:
        return {**super().scopes(), **self._further}

    def say(self, error: Exception) -> str:
        """An exception's kind and words, without the values that were looked up."""
        return said_by(error, values=self.told)


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
    plugin = PLACES[group].plugin(word)
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
