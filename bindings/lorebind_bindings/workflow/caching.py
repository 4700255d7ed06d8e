"""Reuse of task outputs for the same input, for as long as the task's `cache` says."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lorebind_config.checks.conditions import compile_condition
from lorebind_config.checks.template_checks import texts
from lorebind_config.declarations.tasks import with_nested
from lorebind_config.namespace import digest
from lorebind_config.templates import TemplateError, look_up, mentions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_bindings.workflow.results import Outcome
    from lorebind_bindings.workflow.running import Context
    from lorebind_config.declarations.tasks import TaskBase
    from lorebind_config.templates import Reference


def cached(context: Context) -> Outcome | None:
    """Return the cached outcome for the same input and tenant, if it has not expired."""
    if context.task.cache is None:
        return None
    outcome = context.run.parts.cache.get(_key(context))
    # A copy, because each execution adds its updates.
    return replace(outcome) if outcome else None


def remember(context: Context, outcome: Outcome) -> None:
    """Store the outcome of a task if the task declares a cache."""
    if context.task.cache is not None:
        context.run.parts.cache.put(_key(context), replace(outcome), context.task.cache.ttl_seconds)


def _references(task: TaskBase) -> Iterator[Reference]:
    """Yield the names in the templates and conditions of a task and of its nested tasks."""
    for inner in with_nested([task]):
        for field in inner.templated:
            for _, text in texts(getattr(inner, field)):
                yield from mentions(text)
        for condition in (inner.condition, getattr(inner, "filter", None)):
            if condition is not None:
                yield from sorted(compile_condition(condition).paths)


def _key(context: Context) -> str:
    """Return a key made of the tenant, the declared task and the values that its templates use."""
    task, scopes = context.task, {**context.values(), **context.scopes()}
    named: list[Any] = []
    for reference in _references(task):
        # A missing name is a place for passages, or is defined only within the task.
        with suppress(TemplateError):
            named.append([reference, look_up(reference, scopes)])
    return digest(
        context.run.parts.loaded.tenant,
        context.frame.workflow.id,
        json.dumps(task.written(), sort_keys=True),
        json.dumps(named, sort_keys=True),
    )
