"""From a declared extension to the object whose hooks are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.configuration.named_code import named_class
from lorebind_knowledge.configuration.plugged import PluginEnvironment, make_plugged
from lorebind_knowledge.declarations.extensions import PythonExtension
from lorebind_knowledge.errors import UsageError
from lorebind_knowledge.events import Extension
from lorebind_knowledge.redaction import said_by

if TYPE_CHECKING:
    from lorebind_knowledge.configuration import Environment
    from lorebind_knowledge.declarations.extensions import ExtensionBase


def make_extension(declaration: ExtensionBase, environment: Environment) -> Extension:
    """The extension that a declaration names.

    Raises:
        UsageError: it cannot be imported, or made with what was declared.
        PluginError: the plugin is broken.
    """
    if not isinstance(declaration, PythonExtension):
        confided = PluginEnvironment(environment)
        made = make_plugged("extensions", declaration, confided, (), UsageError)
        return _checked(made, f"plugin {getattr(declaration, declaration.kind_key)!r}")
    expected = "a class derived from lorebind.Extension"
    kind = named_class(declaration, environment, expected, Extension)
    settings = environment.fill(dict(declaration.config))
    try:
        made = kind(**settings)
    except Exception as error:  # whatever a third party's constructor raises
        said = said_by(error, written=declaration.config, resolved=settings)
        raise UsageError(
            f"the extension {declaration.class_path} cannot be made with the configuration "
            f"given: {said}"
        ) from error
    return _checked(made, declaration.class_path)


def _checked(made: object, what: str) -> Extension:
    if not isinstance(made, Extension):
        raise UsageError(f"the extension {what} is not derived from lorebind.Extension")
    return made
