"""From a declaration to the part that it declares: one way for built-in kinds and for plugins."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.configuration import confided, templates
from lorebind_knowledge.configuration.environment import Environment
from lorebind_knowledge.declarations.places import PLACES, is_plugins
from lorebind_knowledge.errors import LorebindError, PluginError
from lorebind_knowledge.redaction import said_by

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from lorebind_knowledge.declarations.base import Declaration
    from lorebind_knowledge.plugins import Group


class PartEnvironment(Environment):
    """The project's environment as one part sees it; it remembers the values that it gave.

    `root` is the project folder; `fill` fills in the templates of a value of the declaration,
    `lookup` gives one variable. Messages of the part's exceptions show the template instead of
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

    @contextmanager
    def saying(
        self, failure: type[LorebindError], what: str, holder: object = None
    ) -> Iterator[None]:
        """What is raised inside becomes a failure that says it without the values looked up.

        Args:
            failure: what is raised instead. Errors of Lorebind pass as they are.
            what: what failed.
            holder: the object that raises; what it keeps as `SecretStr` is taken out too.
        """
        try:
            yield
        except LorebindError:
            raise
        except Exception as error:  # any third party's own exceptions
            said = said_by(error, holder=holder, values=self.told)
            raise failure(f"{what}: {said}") from error


def make_part(
    group: Group,
    declaration: Declaration,
    environment: PartEnvironment,
    members: Collection[str],
    failure: type[LorebindError],
    redacting: Callable[[Any, Any], Any] = lambda made, environment: made,
) -> Any:
    """The part that a declaration names, made by the module or the plugin of its kind.

    Args:
        group: where its kind stands.
        declaration: what is declared.
        environment: what the part may look up.
        members: what the part must have.
        failure: what is raised when it cannot be made with what was declared.
        redacting: put around a plugin's part, whose exceptions may say what it was told; those of
            Lorebind's own kinds do not.

    Raises:
        PluginError: there is no such kind, or what it makes is not what its group wants.
    """
    word = getattr(declaration, declaration.kind_key)
    kind = PLACES[group].kind(word)
    if kind is None:
        raise PluginError(f"no plugin {word!r} of lorebind.{group} is installed any more")
    what = f"{declaration.label} {getattr(declaration, 'id', word)!r}"
    named = getattr(declaration, "class_path", None)
    refused = f"{what}{f': {named}' if named else ''} cannot be made with the configuration given"
    with environment.saying(failure, refused):
        made = kind.make(declaration, environment)
    # A property of the class is not asked for its value, which may take a while.
    lacking = [one for one in members if not (hasattr(type(made), one) or hasattr(made, one))]
    if lacking:
        raise PluginError(
            f"{what}: plugin {word!r} of lorebind.{group} made a {type(made).__name__} "
            f"without {', '.join(lacking)}"
        )
    return redacting(made, environment) if is_plugins(declaration) else made
