"""Creates the part that a declaration describes, in the same way for built-in kinds and plugins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lorebind_config import templates
from lorebind_config.checks.template_checks import refuse_unset
from lorebind_config.declarations.base import Declaration
from lorebind_config.declarations.kinds import REGISTRIES, is_plugins
from lorebind_config.errors import LorebindError, PluginError
from lorebind_config.plugins import Group
from lorebind_config.redaction import redacted_message
from lorebind_config.templates import Environment


class PartEnvironment(Environment):
    """The project's environment for one part; it remembers the values that the part was given.

    `root` is the project folder, `fill` fills the templates in a value of the declaration, and
    `lookup` returns a variable. Messages of exceptions that the part raises show templates instead
    of these values.
    """

    def __init__(self, environment: Environment, scopes: Mapping[str, Any] | None = None) -> None:
        """
        Args:
            environment: Environment of the project.
            scopes: Additional template scopes, such as `workflow`.
        """
        super().__init__(environment.root)
        self._inner = environment
        self._further = templates.plain(scopes or {})
        self.secrets = templates.values_in(scopes or {})
        """The values that the part was given, each mapped to its template."""

    def lookup(self, name: str) -> str | None:
        value = self._inner.lookup(name)
        if value:
            self.secrets[value] = templates.as_template(("env", name))
        return value

    def scopes(self) -> dict[str, Any]:
        return {**super().scopes(), **self._further}

    @contextmanager
    def redact_errors(
        self, failure: type[LorebindError], what: str, holder: object = None
    ) -> Iterator[None]:
        """Turn exceptions of a block into a failure whose message contains no confidential values.

        Args:
            failure: Exception to raise instead. Errors of Lorebind are not changed.
            what: Description of the operation that failed.
            holder: Object that raises; its `SecretStr` values are removed from the message too.
        """
        try:
            yield
        except LorebindError:
            raise
        except Exception as error:  # third-party code may raise anything
            message = redacted_message(error, holder=holder, values=self.secrets)
            raise failure(f"{what}: {message}") from error


def make_part(
    group: Group,
    declaration: Declaration,
    environment: PartEnvironment,
    members: Collection[str],
    failure: type[LorebindError],
    redacting: Callable[[Any, Any], Any] = lambda part, environment: part,
) -> Any:
    """Create the part that a declaration describes, with the module or the plugin of its kind.

    Args:
        group: Group of the kind.
        declaration: Declaration of the part.
        environment: Environment that the part may read.
        members: Names of attributes that the part must have.
        failure: Exception to raise if the part cannot be created as it is declared.
        redacting: Wrapper for the part of a plugin, whose exceptions may contain confidential
            values. The built-in kinds take care of that themselves.

    Raises:
        PluginError: The kind does not exist, or the part lacks one of the members.
        MissingVariableError: A variable that the declaration uses is not set. Sources are made
            without their variables.
    """
    word = getattr(declaration, declaration.kind_key)
    kind = REGISTRIES[group].kind(word)
    if kind is None:
        raise PluginError(f"plugin {word!r} of lorebind.{group} is no longer installed")
    what = f"{declaration.label} {getattr(declaration, 'id', word)!r}"
    named = getattr(declaration, "class_path", None)
    refused = f"{what}{f': {named}' if named else ''} cannot be created from this configuration"
    if group != "sources":  # they fail when they are listed, and keep their keys until then
        refuse_unset(declaration, environment)
    with environment.redact_errors(failure, refused):
        part = kind.make(declaration, environment)
    # A property is looked up on the class, since computing its value may be slow.
    lacking = [
        member for member in members if not (hasattr(type(part), member) or hasattr(part, member))
    ]
    if lacking:
        raise PluginError(
            f"{what}: plugin {word!r} of lorebind.{group} made a {type(part).__name__} "
            f"without {', '.join(lacking)}"
        )
    return redacting(part, environment) if is_plugins(declaration) else part
