"""From a declared source to the object that lists its documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_knowledge.configuration.make_part import make_part
from lorebind_knowledge.errors import LorebindError, SourceError
from lorebind_knowledge.sources.environment import SourceEnvironment
from lorebind_knowledge.sources.key import key_of
from lorebind_knowledge.sources.redacting import RedactingSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lorebind_knowledge.configuration import Environment
    from lorebind_knowledge.declarations.sources import SourceBase
    from lorebind_knowledge.sources.base import Source, SourceItem


def make_source(
    declaration: SourceBase,
    environment: Environment,
    *,
    workflow: Mapping[str, Any] | None = None,
) -> Source:
    """The source that a declaration names. Nothing is opened or fetched yet.

    Never raises: a source that cannot be made, because a template of it stands for nothing or an
    extra is not installed, fails when it is enumerated, as others fail that are not there. It has
    the same key then, so that what was ingested from it is kept.

    Args:
        declaration: the declaration.
        environment: of the project; its scopes are known to templates, its folder holds the files.
        workflow: what templates know as `workflow`, with `input` and `vars`; None outside of one.
    """
    own = SourceEnvironment(environment, key_of(declaration), workflow)
    try:
        source = make_part("sources", declaration, own, ("items",), SourceError)
    except LorebindError as error:
        source = _Unmade(own.key, error)
    return RedactingSource(source, declaration, own)


class _Unmade:
    """A source that could not be made."""

    def __init__(self, key: str, error: LorebindError) -> None:
        self.key = key
        self._error = error

    def items(self) -> Iterable[SourceItem]:
        raise SourceError(str(self._error)) from self._error
