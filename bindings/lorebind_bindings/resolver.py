"""Resolve which knowledge an agent may use, and where each setting comes from.

Scopes are merged in the order project → workflow → task → agent, on top of the knowledge base's own
`retrieval`. Entries are keyed by id and stay in the order of their first appearance. A later scope
overrides single values and replaces lists and maps. An explicit null clears the value of earlier
scopes, and `knowledge: []` all of their bindings.

Merging keeps the history: every field keeps all scopes that set it, the last first. So a merge
concatenates two histories, which is associative, and the value in effect is the first entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import ValidationError

from lorebind_config.checks.template_checks import read_passage_template
from lorebind_config.declarations.rendering import is_file
from lorebind_config.declarations.retrieval import RetrievalDeclaration
from lorebind_config.errors import UsageError
from lorebind_config.reading.problems import findings
from lorebind_config.reading.yaml_source import YamlSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from langchain_core.language_models import BaseChatModel

    from lorebind_config.declarations.agents import AgentDeclaration, KnowledgeTool
    from lorebind_config.declarations.base import Declaration, Position
    from lorebind_config.declarations.bindings import BindingDeclaration
    from lorebind_config.reading.loaded import LoadedProject


@dataclass(frozen=True, slots=True)
class Setting:
    """The value that a scope set for a field, with its location."""

    value: Any
    """None is an explicit null: it clears the value of outer scopes."""
    scope: str
    file: str = ""
    line: int = 0


Layer: TypeAlias = "Mapping[str, tuple[Setting, ...]]"
"""The settings of each field, the last one first."""
Entries: TypeAlias = "Mapping[str, Layer]"
"""The fields set for each knowledge base, by its id, in the order of first appearance."""


def merge(outer: Layer, inner: Layer) -> Layer:
    """Merge two layers; if both set a field, the inner value is in effect."""
    return {name: inner.get(name, ()) + outer.get(name, ()) for name in {**outer, **inner}}


def merge_entries(outer: Entries, inner: Entries) -> Entries:
    """Merge the bindings of two scopes by knowledge base id."""
    return {
        kb_id: merge(outer.get(kb_id, {}), inner.get(kb_id, {})) for kb_id in {**outer, **inner}
    }


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
    def is_searchable(self) -> bool:
        """Whether the model may search the knowledge base by itself."""
        return self.settings.tool_fallback != "never"

    @property
    def renderer(self) -> str:
        """The renderer of the passages: a name or a template."""
        return self.template if is_file(self.settings.render) else self.settings.render


class EffectiveBindings(list[ResolvedBinding]):
    """The bindings in effect at a location, in order of their first appearance."""

    def __init__(
        self, bindings: Iterable[ResolvedBinding] = (), unbound_by: Provenance | None = None
    ) -> None:
        super().__init__(bindings)
        self.unbound_by = unbound_by
        """Where `knowledge: []` removes the bindings of outer scopes; None if nowhere."""


@dataclass(frozen=True, slots=True)
class BindingScope:
    """Where a question is asked, which determines what is searched.

    These are knowledge bases by name, or a workflow, one of its tasks, an agent, or the project. A
    project that binds nothing is searched as a whole.
    """

    loaded: LoadedProject
    kb_ids: tuple[str, ...] = ()
    workflow: str | None = None
    """The workflow in which ids are looked up."""
    task: str | None = None
    agent: str | None = None
    """The agent that answers; None means the task's agent."""
    narrow: Mapping[str, Any] = field(default_factory=dict)
    """A condition that passages must meet in addition to the filters in effect."""

    def bindings(self, **settings: Any) -> list[ResolvedBinding]:
        """Return the bindings to search here; see `resolve`.

        The list is empty only if `knowledge: []` says so.

        Raises:
            NotFoundError: there is no such knowledge base, workflow, task or agent.
            UsageError: no scope says what is bound here, or a setting is invalid.
        """
        bindings = self.resolve(**settings)
        if not bindings and self.unbound_by() is None:
            if not self.loaded.every_knowledge_base():
                raise UsageError(
                    f"the project {self.loaded.project.name!r} has no knowledge base yet; declare "
                    "one under knowledge_bases"
                )
            raise UsageError(
                "no knowledge base is bound here; name one, as in project.retriever('docs')"
            )
        return bindings

    def resolve(self, **settings: Any) -> list[ResolvedBinding]:
        """Return the bindings in effect here, if any: an agent may have only tools or a schema.

        Args:
            settings: fields of `retrieval` to override.

        Raises:
            NotFoundError: there is no such knowledge base, workflow, task or agent.
            UsageError: a task is named without its workflow, or a setting is invalid.
        """
        entries: Entries = {kb_id: {} for kb_id in self.kb_ids} or self._entries()
        anywhere = self.workflow is None and self.task is None and self.agent is None
        if not entries and anywhere and self.unbound_by() is None:
            entries = {kb.id: {} for kb in self.loaded.project.knowledge_bases}
        return [
            self._narrowed(
                override(_resolved(self.loaded, kb_id, layer, self.workflow), **settings)
            )
            for kb_id, layer in entries.items()
        ]

    def resolve_tool(self, tool: KnowledgeTool) -> ResolvedBinding:
        """Return the binding that a tool of the agent here searches.

        The tool's settings override those of the agent's bindings.

        Raises:
            NotFoundError, UsageError: as for `resolve`.
        """
        (*_, agent) = self._declarations()
        entries = merge_entries(self._entries(), _entries(f"{agent.name}/tools", [tool]))
        return self._narrowed(_resolved(self.loaded, tool.id, entries[tool.id], self.workflow))

    def unbound_by(self) -> Provenance | None:
        """Return where `knowledge: []` removes the bindings of outer scopes; None if nowhere.

        If several scopes do, it is the innermost one. See `resolve` for the errors.
        """
        clearing = [scope for scope in self._declarations() if scope.clears]
        if not clearing:
            return None
        at = clearing[-1].declaration.position("knowledge")
        return Provenance(clearing[-1].name, at.file, at.line)

    def check(self) -> None:
        """Check that something is bound here, or that the agent here can answer without.

        Raises:
            NotFoundError: there is no such knowledge base, workflow, task or agent.
            UsageError: no scope says what is bound here, and no agent here has tools or a schema.
        """
        agent = self.answers()
        if agent is None or not (agent.tools or agent.output_schema is not None):
            self.bindings()

    def answers(self) -> AgentDeclaration | None:
        """Return the agent that answers here: the named agent, otherwise the task's agent.

        Raises:
            NotFoundError: there is no such workflow, task or agent.
        """
        agent = self.agent
        if agent is None and self.task is not None and self.workflow is not None:
            agent = self.loaded.task(self.task, self.workflow).answers_as
        return None if agent is None else self.loaded.agent(agent, self.workflow)

    def description(self) -> str:
        """Return the declared descriptions of the knowledge bases, joined into one text."""
        return " ".join(filter(None, self.descriptions(self.bindings()).values()))

    def descriptions(self, bindings: Iterable[ResolvedBinding]) -> dict[str, str]:
        """Return the declared description of each knowledge base; it may be empty."""
        return {
            binding.id: self.loaded.knowledge_base(binding.id, self.workflow)[0].description.strip()
            for binding in bindings
        }

    def _declarations(self) -> Iterator[_Scope]:
        """Yield the scopes that can bind knowledge, the outermost first."""
        loaded, workflow, agent = self.loaded, self.workflow, self.agent
        yield _Scope("project", loaded.project)
        if workflow is not None:
            yield _Scope(f"workflow/{workflow}", loaded.workflow(workflow))
        if self.task is not None:
            if workflow is None:
                raise UsageError(f"task {self.task!r} belongs to a workflow; name the workflow too")
            step = loaded.task(self.task, workflow)
            yield _Scope(f"task/{self.task}", step)
            agent = agent or step.answers_as
        if agent is not None:
            yield _Scope(f"agent/{agent}", loaded.agent(agent, workflow))

    def _narrowed(self, binding: ResolvedBinding) -> ResolvedBinding:
        return narrowed(binding, self.narrow) if self.narrow else binding

    def _entries(self) -> Entries:
        entries: Entries = {}
        for scope in self._declarations():
            outer = {} if scope.clears else entries
            entries = merge_entries(outer, _entries(scope.name, scope.bindings))
        return entries


def bind(loaded: LoadedProject, kb_id: str, workflow: str | None = None) -> ResolvedBinding:
    """Return a binding with the knowledge base's own `retrieval`, without overrides of scopes."""
    return _resolved(loaded, kb_id, {}, workflow)


def narrowed(binding: ResolvedBinding, filters: Mapping[str, Any]) -> ResolvedBinding:
    """Return a binding whose passages must meet a further condition."""
    return override(binding, filters=both_filters(binding.settings.filters, filters))


def both_filters(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return a filter that passes what passes both; an empty filter passes everything."""
    return {"$and": [first, second]} if first and second else {**first, **second}


def override(binding: ResolvedBinding, **settings: Any) -> ResolvedBinding:
    """Return a binding with some settings replaced by the caller's, see `RetrievalSettings`.

    Raises:
        UsageError: a value is invalid; the message is the same as for an error in the YAML.
    """
    chosen = override_settings(binding.settings, **settings)
    changed = [name for name, value in settings.items() if value is not None]
    places = dict.fromkeys(changed, Provenance("caller"))
    return replace(binding, settings=chosen, provenance=binding.provenance | places)


def override_settings(declared: RetrievalDeclaration, **settings: Any) -> RetrievalDeclaration:
    """Return settings with some replaced by the caller's; see `override`."""
    changes: dict[str, Any] = {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in settings.items()
        if value is not None
    }
    if not changes:
        return declared
    # Other texts and collections may be long, or have no hash.
    if all(
        isinstance(changes[name], str if name == "strategy" else float | int) for name in changes
    ):
        return _overridden_once(_Declared(declared), **changes)
    return _overridden(declared, changes)


class _Declared:
    """Settings as a key: equal to the same object alone, because their mappings have no hash."""

    def __init__(self, settings: RetrievalDeclaration) -> None:
        self.settings = settings

    def __hash__(self) -> int:
        return id(self.settings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Declared) and other.settings is self.settings


# Validation takes 50 µs of each question, and most questions set the same numbers. Typed, because
# `True` equals 1 but is refused.
@lru_cache(maxsize=64, typed=True)
def _overridden_once(declared: _Declared, **changes: Any) -> RetrievalDeclaration:
    return _overridden(declared.settings, changes)


def _overridden(declared: RetrievalDeclaration, changes: dict[str, Any]) -> RetrievalDeclaration:
    written = {name: getattr(declared, name) for name in declared.model_fields_set} | changes
    try:
        chosen = RetrievalDeclaration(**written)
    except ValidationError as error:
        source = YamlSource.from_data(written)
        wrong = [
            UsageError(
                f"{finding.message}; {finding.hint}" if finding.hint else finding.message, at=path
            )
            for path, finding in findings(error, source, RetrievalDeclaration)
        ]
        raise UsageError.of(wrong) from None
    if chosen.render != declared.render and is_file(chosen.render):
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
    retrieval = kb.retrieval
    base = {
        name: (_setting(getattr(retrieval, name), "knowledge_base", retrieval.position(name)),)
        for name in retrieval.model_fields_set
    }
    settings = merge(base, layer)
    values: dict[str, Any] = {"strategy": loaded.default_strategy(kb)}
    values |= {name: last.value for name, (last, *_) in settings.items() if last.value is not None}
    provenance = dict.fromkeys(RetrievalDeclaration.model_fields, Provenance("default"))
    provenance |= {
        name: Provenance(
            last.scope, last.file, last.line, tuple(setting.scope for setting in before)
        )
        for name, (last, *before) in settings.items()
    }
    chosen = RetrievalDeclaration(**values)
    template = read_passage_template(loaded.root, chosen.render) if is_file(chosen.render) else ""
    level = loaded.weak_levels(kb).of(chosen)
    return ResolvedBinding(kb_id, chosen, provenance, workflow, template, weak_below=level)


def _setting(value: Any, scope: str, position: Position) -> Setting:
    return Setting(value, scope, position.file, position.line)
