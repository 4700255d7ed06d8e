"""What a source may look up, and its declaration with the templates filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from lorebind_knowledge.configuration import confided, templates
from lorebind_knowledge.configuration.make_part import PartEnvironment
from lorebind_knowledge.configuration.templates import LazyScope, TemplateError
from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.redaction import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lorebind_knowledge.configuration import Environment, Reference
    from lorebind_knowledge.declarations.base import Declaration

    AnyDeclaration = TypeVar("AnyDeclaration", bound=Declaration)


class SourceEnvironment(PartEnvironment):
    """The project's environment as one source sees it."""

    def __init__(
        self, environment: Environment, key: str, workflow: Mapping[str, Any] | None
    ) -> None:
        """
        Args:
            environment: the project's.
            key: the source's key.
            workflow: what templates know as `workflow`; None outside of one.
        """
        of_run: dict[str, Any] = {}
        if workflow is not None:
            of_run = {"workflow": workflow, "input": workflow.get("input", {})}
        super().__init__(environment, of_run)
        self.key = key
        self._confided = {**environment.confided_scopes(), **of_run}
        self._former = {**environment.scopes(), "secrets": _Hidden(), **confided.plain(of_run)}

    def value(self, reference: Reference) -> Any:
        """What a template stands for; a `Confided` text knows how it may be shown.

        Raises:
            TemplateError: it is not defined.
        """
        value = templates.look_up(reference, self._confided)
        self.told |= confided.values_in(value)
        return value

    def filled(
        self, written: AnyDeclaration
    ) -> tuple[AnyDeclaration, AnyDeclaration, AnyDeclaration]:
        """A declaration with its templates filled in: as it is, as it is shown, as it once was.

        Raises:
            SourceError: for a template that stands for nothing, or not for what belongs there.
        """
        fields = _filled(written, self._confided)
        self.told |= confided.values_in(fields)
        real = written.model_copy(update=confided.plain(fields))
        shown = written.model_copy(update=confided.shown(fields))
        return real, shown, written.model_copy(update=_filled(written, self._former))


class _Hidden(LazyScope):
    """The scope `secrets` in the uris of earlier versions, which did not hide those of `env`."""

    def __getitem__(self, name: str) -> str:
        return HIDDEN


def _filled(written: Declaration, scopes: Mapping[str, Any]) -> dict[str, Any]:
    """The templated fields of a declaration with their templates replaced.

    Raises:
        SourceError: for a template that stands for nothing, or not for what belongs there.
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
                raise SourceError(f"{field}: {text} stands for a value of type {kind}, not a text")
            if text and value == "":
                raise SourceError(f"{field}: {text} stands for an empty text")
        changes[field] = after
    return changes
