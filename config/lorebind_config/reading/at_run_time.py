"""Knowledge bases that are declared at run time, in addition to those in the project's files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from lorebind_config.checks.named_code import code_problems
from lorebind_config.checks.references import dangling, duplicates
from lorebind_config.checks.template_checks import (
    passage_templates,
    project_templates,
    unset_variables,
)
from lorebind_config.checks.vector_dbs import dimensions, searches
from lorebind_config.declarations.base import Path, Position, locate
from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
from lorebind_config.declarations.project import ProjectDeclaration
from lorebind_config.errors import ConfigurationError, Problem
from lorebind_config.reading.loaded import LoadedProject
from lorebind_config.reading.problems import findings
from lorebind_config.reading.yaml_source import YamlSource


def read_knowledge_base(
    loaded: LoadedProject,
    data: Mapping[str, Any],
    refused: Callable[[KnowledgeBaseDeclaration], Iterable[Problem]] = lambda _: (),
) -> KnowledgeBaseDeclaration:
    """Validate a knowledge base as an addition to a project, and return its declaration.

    Args:
        loaded: The project.
        data: The content that the YAML of the knowledge base would have.
        refused: Finds what the declaration may not say, before the files that it names are read.

    Raises:
        ConfigurationError: The knowledge base is not valid. The error lists every problem. The
            `file` of each problem is a JSON pointer (RFC 6901) into the data.
    """
    source = YamlSource.from_data(data)
    source = _Pointed(source.shown_as, source.data)
    try:
        declared = _validated(source)
    except ValidationError as error:
        problems = [problem for _, problem in findings(error, source, KnowledgeBaseDeclaration)]
        if (valid := _valid_part(source)) is not None:
            problems += [*refused(valid), *dangling(_alone(loaded, valid), [], [])]
        raise ConfigurationError(problems) from None
    unwanted = list(refused(declared))
    overlaid = with_knowledge_bases(loaded, [declared])
    alone = _alone(overlaid, declared)
    everywhere = overlaid.project.model_copy(update={"agents": [], "workflows": []})
    problems = [
        *unwanted,
        *duplicates(everywhere, [], []),
        *dangling(alone, [], []),
        *dimensions(alone, []),
        *searches(alone, [], []),
        *project_templates(declared),
    ]
    if not unwanted:
        problems += unset_variables(declared, loaded.environment)
        problems += passage_templates(declared, loaded.root)
        problems += code_problems(declared, loaded.root)
    if problems:
        raise ConfigurationError(problems)
    return declared


def _alone(loaded: LoadedProject, declared: KnowledgeBaseDeclaration) -> ProjectDeclaration:
    """Return the project with only this knowledge base, since its files are valid already."""
    update = {"agents": [], "workflows": [], "knowledge": [], "knowledge_bases": [declared]}
    return loaded.project.model_copy(update=update)


def _valid_part(source: _Pointed) -> KnowledgeBaseDeclaration | None:
    """Return the declaration without what is not valid, so that the rest can be checked too."""
    rest: _Pointed | None = source
    while rest is not None:
        try:
            return _validated(rest)
        except ValidationError as error:
            invalid = findings(error, rest, KnowledgeBaseDeclaration)
            rest = rest.without(path for path, _ in invalid)
    return None


def _validated(source: YamlSource) -> KnowledgeBaseDeclaration:
    declared = KnowledgeBaseDeclaration.model_validate(source.data)
    locate(declared, source)
    return declared


def with_knowledge_bases(
    loaded: LoadedProject, declared: Sequence[KnowledgeBaseDeclaration]
) -> LoadedProject:
    """Return the project with these knowledge bases added; they are not checked."""
    every = [*loaded.project.knowledge_bases, *declared]
    return replace(loaded, project=loaded.project.model_copy(update={"knowledge_bases": every}))


class _Pointed(YamlSource):
    """Data whose positions are JSON pointers."""

    def position(self, path: Path) -> Position:
        return Position(pointer(path), 0, 0)

    def without(self, paths: Iterable[Path]) -> _Pointed | None:
        """Return the data without these keys; for one that is missing, without the closest key
        above it. None if nothing is left to remove."""
        data, is_shorter = deepcopy(self.data), False
        for path in paths:
            place: Any = data
            holder: Any = None
            with suppress(LookupError, TypeError):
                for step in path:
                    if isinstance(place, dict) and step in place:
                        holder, key = place, step
                    place = place[step]
            if holder is not None:
                del holder[key]
                is_shorter = True
        return _Pointed(self.shown_as, data) if is_shorter else None


def pointer(path: Path) -> str:
    """Return a path as a JSON pointer, such as `/sources/0/path`."""
    steps = (str(step).replace("~", "~0").replace("/", "~1") for step in path)
    return "".join(f"/{step}" for step in steps)
