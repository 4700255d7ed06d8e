"""Resolve which knowledge an agent may use, and where each setting comes from.

Scopes are merged in the order project → workflow → task → agent, on top of the knowledge base's own
`retrieval`. Entries are keyed by id and stay in the order of their first appearance. A later scope
overrides single values and replaces lists and maps. An explicit null clears the value of earlier
scopes, and `knowledge: []` all of their bindings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from lorebind_bindings.merging import Setting, merge, merge_entries
from lorebind_config.checks.template_checks import read_passage_template
from lorebind_config.declarations.rendering import is_file
from lorebind_config.declarations.retrieval import RetrievalDeclaration
from lorebind_config.errors import UsageError
from lorebind_config.reading.problems import findings
from lorebind_config.reading.yaml_source import YamlSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from langchain_core.language_models import BaseChatModel

    from lorebind_bindings.merging import Entries, Layer
    from lorebind_config.declarations.agents import KnowledgeTool
    from lorebind_config.declarations.base import Declaration, Position
    from lorebind_config.declarations.bindings import BindingDeclaration
    from lorebind_config.reading.loaded import LoadedProject


@dataclass(frozen=True, slots=True)
class Provenance:
    """The scope and location that set the value in effect of a field."""

    scope: str
    """`default`, `knowledge_base`, `project`, `workflow/<id>`, `task/<id>`, `agent/<id>`, or
    `caller` for settings that were passed in the call."""
    file: str = ""
    line: int = 0
    overrode: tuple[str, ...] = ()
    """The scopes that had set the field before, the nearest first."""

    @property
    def location(self) -> str:
        """The file and line, `lorebind.yaml:12`; empty if no file set the value."""
        return f"{self.file}:{self.line}" if self.line else ""


@dataclass(frozen=True, slots=True)
class ResolvedBinding:
    """A knowledge base with the settings that apply to an agent, task, workflow or project."""

    id: str
    settings: RetrievalDeclaration
    provenance: dict[str, Provenance]
    """The origin of each field of the settings."""
    workflow: str | None = None
    """The workflow in which the id is looked up."""
    template: str = ""
    """The content of the file that `render` names, if it names one."""
    condenser: Callable[[], BaseChatModel] | None = field(default=None, repr=False)
    """Returns the chat model that `condense` names, see `ModelPool.condensing`."""
    weak_below: float | None = None
    """The relevance of the best passage below which a match is weak; None: no match is weak."""

    @property
    def renderer(self) -> str:
        """The renderer of the passages: a name or a template."""
        return self.template if is_file(self.settings.render) else self.settings.render


def resolve(
    loaded: LoadedProject,
    *,
    workflow: str | None = None,
    task: str | None = None,
    agent: str | None = None,
) -> list[ResolvedBinding]:
    """Return the bindings in effect at a place.

    Args:
        loaded: the project.
        workflow: the id of a workflow.
        task: the id of a task of the workflow.
        agent: the id of an agent; None means the task's agent.

    Raises:
        NotFoundError: the project has no such workflow, task or agent.
        UsageError: a task is named without its workflow.
    """
    entries = _merged(_scopes(loaded, workflow, task, agent))
    return [_resolved(loaded, kb_id, layer, workflow) for kb_id, layer in entries.items()]


def unbound_by(
    loaded: LoadedProject,
    *,
    workflow: str | None = None,
    task: str | None = None,
    agent: str | None = None,
) -> Provenance | None:
    """Return where `knowledge: []` removes the bindings of outer scopes; None if no scope does.

    If several scopes do, it is the innermost one. See `resolve` for the arguments and errors.
    """
    clearing = [scope for scope in _scopes(loaded, workflow, task, agent) if scope.clears]
    if not clearing:
        return None
    at = clearing[-1].declaration.position("knowledge")
    return Provenance(clearing[-1].name, at.file, at.line)


def resolve_tool(
    loaded: LoadedProject,
    tool: KnowledgeTool,
    agent: str,
    *,
    workflow: str | None = None,
    task: str | None = None,
) -> ResolvedBinding:
    """Return the binding that a tool of an agent searches.

    The tool's own settings override those of the agent's bindings.

    Raises:
        NotFoundError, UsageError: as for `resolve`.
    """
    outer = _merged(_scopes(loaded, workflow, task, agent))
    entries = merge_entries(outer, _entries(f"agent/{agent}/tools", [tool]))
    return _resolved(loaded, tool.id, entries[tool.id], workflow)


def bind(loaded: LoadedProject, kb_id: str, workflow: str | None = None) -> ResolvedBinding:
    """Return a binding with the knowledge base's own `retrieval`, without overrides of scopes."""
    return _resolved(loaded, kb_id, {}, workflow)


def override(binding: ResolvedBinding, **settings: Any) -> ResolvedBinding:
    """Return a binding with some settings replaced by the caller's, see `RetrievalSettings`.

    Raises:
        UsageError: a value is invalid; the message is the same as for an error in the YAML.
    """
    chosen = override_settings(binding.settings, **settings)
    changed = [name for name, value in settings.items() if value is not None]
    places = dict.fromkeys(changed, Provenance("caller"))
    return replace(binding, settings=chosen, provenance=binding.provenance | places)


def override_settings(own: RetrievalDeclaration, **settings: Any) -> RetrievalDeclaration:
    """Return settings with some replaced by the caller's; see `override`."""
    given = {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in settings.items()
        if value is not None
    }
    if not given:
        return own
    written = {name: getattr(own, name) for name in own.model_fields_set} | given
    try:
        chosen = RetrievalDeclaration(**written)
    except ValidationError as error:
        source = YamlSource.from_data(written)
        wrong = [
            UsageError(f"{one.message}; {one.hint}" if one.hint else one.message, at=path)
            for path, one in findings(error, source, RetrievalDeclaration)
        ]
        raise UsageError.of(wrong) from None
    if chosen.render != own.render and is_file(chosen.render):
        raise UsageError(f"render: {chosen.render!r}: give the template itself, not its file")
    return chosen


@dataclass(frozen=True, slots=True)
class _Scope:
    """A declaration that can bind knowledge."""

    name: str
    declaration: Declaration

    @property
    def bindings(self) -> Sequence[BindingDeclaration]:
        return getattr(self.declaration, "knowledge", ())  # only tasks with a model have it

    @property
    def clears(self) -> bool:
        return "knowledge" in self.declaration.model_fields_set and not self.bindings


def _scopes(
    loaded: LoadedProject, workflow: str | None, task: str | None, agent: str | None
) -> Iterator[_Scope]:
    yield _Scope("project", loaded.project)
    if workflow is not None:
        yield _Scope(f"workflow/{workflow}", loaded.workflow(workflow))
    if task is not None:
        if workflow is None:
            raise UsageError(f"task {task!r} belongs to a workflow; name the workflow too")
        step = loaded.task(task, workflow)
        yield _Scope(f"task/{task}", step)
        agent = agent or step.answers_as
    if agent is not None:
        yield _Scope(f"agent/{agent}", loaded.agent(agent, workflow))


def _merged(scopes: Iterable[_Scope]) -> Entries:
    entries: Entries = {}
    for scope in scopes:
        outer = {} if scope.clears else entries
        entries = merge_entries(outer, _entries(scope.name, scope.bindings))
    return entries


def _entries(scope: str, bindings: Sequence[BindingDeclaration | KnowledgeTool]) -> Entries:
    return {
        binding.id: {
            name: (_setting(value, scope, binding.override_position(name)),)
            for name, value in binding.overrides().items()
        }
        for binding in bindings
    }


def _resolved(
    loaded: LoadedProject, kb_id: str, layer: Layer, workflow: str | None
) -> ResolvedBinding:
    kb = loaded.knowledge_base(kb_id, workflow)[0]
    own = kb.retrieval
    base = {
        name: (_setting(getattr(own, name), "knowledge_base", own.position(name)),)
        for name in own.model_fields_set
    }
    settings = merge(base, layer)
    values: dict[str, Any] = {"strategy": loaded.default_strategy(kb)}
    values |= {name: last.value for name, (last, *_) in settings.items() if last.value is not None}
    provenance = dict.fromkeys(RetrievalDeclaration.model_fields, Provenance("default"))
    provenance |= {
        name: Provenance(last.scope, last.file, last.line, tuple(one.scope for one in before))
        for name, (last, *before) in settings.items()
    }
    chosen = RetrievalDeclaration(**values)
    template = read_passage_template(loaded.root, chosen.render) if is_file(chosen.render) else ""
    level = loaded.weak_levels(kb).of(chosen)
    return ResolvedBinding(kb_id, chosen, provenance, workflow, template, weak_below=level)


def _setting(value: Any, scope: str, position: Position) -> Setting:
    return Setting(value, scope, position.file, position.line)
