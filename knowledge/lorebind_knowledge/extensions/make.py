"""Make an extension from its declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.configuration.make_part import PartEnvironment, make_part
from lorebind_knowledge.errors import UsageError
from lorebind_knowledge.events import Extension

if TYPE_CHECKING:
    from lorebind_knowledge.configuration import Environment
    from lorebind_knowledge.declarations.extensions import ExtensionBase


def make_extension(declaration: ExtensionBase, environment: Environment) -> Extension:
    """Make the declared extension.

    Raises:
        UsageError: it cannot be imported, or does not accept the declared configuration.
        PluginError: the plugin is broken.
    """
    made = make_part("extensions", declaration, PartEnvironment(environment), (), UsageError)
    if not isinstance(made, Extension):
        word = getattr(declaration, declaration.kind_key)
        raise UsageError(
            f"extension {word!r} made a {type(made).__name__}, which is not derived from "
            "lorebind.Extension"
        )
    if declaration.content is not None:
        made.content = declaration.content
    return made
