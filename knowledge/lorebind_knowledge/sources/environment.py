"""The values that a source may look up, and its declaration with resolved templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from lorebind_config.errors import SourceError
from lorebind_config.reading.make_part import PartEnvironment
from lorebind_config.templates import language as templates
from lorebind_config.templates import traced_text
from lorebind_config.templates.language import TemplateError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lorebind_config.declarations.base import Declaration
    from lorebind_config.templates.environment import Environment
    from lorebind_config.templates.language import Reference

    AnyDeclaration = TypeVar("AnyDeclaration", bound=Declaration)


class SourceEnvironment(PartEnvironment):
    """The project's environment for one source."""

    def __init__(
        self, environment: Environment, key: str, workflow: Mapping[str, Any] | None
    ) -> None:
        """Create the environment of a source.

        Args:
            environment: the project's environment.
            key: the source's key.
            workflow: the value of `workflow` in templates; None outside of a workflow.
        """
        of_run: dict[str, Any] = {}
        if workflow is not None:
            of_run = {"workflow": workflow, "input": workflow.get("input", {})}
        super().__init__(environment, of_run)
        self.key = key
        self._confided = {**environment.confided_scopes(), **of_run}

    def value(self, reference: Reference) -> Any:
        """Return the value of a template; a `TracedText` text includes how it may be shown.

        Raises:
            TemplateError: the value is not defined.
        """
        value = templates.look_up(reference, self._confided)
        self.told |= traced_text.values_in(value)
        return value

    def filled(self, written: AnyDeclaration) -> tuple[AnyDeclaration, AnyDeclaration]:
        """Return a declaration with resolved templates: with real values, and as it may be shown.

        Raises:
            SourceError: a template has no value, or a value of the wrong type.
        """
        fields = _filled(written, self._confided)
        self.told |= traced_text.values_in(fields)
        real = written.model_copy(update=traced_text.plain(fields))
        return real, written.model_copy(update=traced_text.shown(fields))


def _filled(written: Declaration, scopes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the templated fields of a declaration with resolved templates.

    Raises:
        SourceError: a template has no value, or a value of the wrong type.
    """
    changes: dict[str, Any] = {}
    for field in written.templated:
        before = getattr(written, field)
        try:
            after = templates.fill(before, scopes)
        except TemplateError as error:
            raise SourceError(f"{field}: {error}") from error
        pairs = zip(before, after, strict=True) if isinstance(before, list) else [(before, after)]
        for text, value in pairs:
            if isinstance(text, str) and not isinstance(value, str):
                kind = type(value).__name__
                raise SourceError(f"{field}: {text}: expected text, got a value of type {kind}")
            if text and value == "":
                raise SourceError(f"{field}: {text} is empty; expected text")
        changes[field] = after
    return changes
