"""Resources in and out of a project: `export` writes them, `apply` takes them into its file."""

from __future__ import annotations

import difflib
import os
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from lorebind_knowledge.configuration.editing import put_entries
from lorebind_knowledge.configuration.loading import load_project, project_file
from lorebind_knowledge.configuration.problems import problems
from lorebind_knowledge.configuration.yaml_source import YamlSource
from lorebind_knowledge.declarations.base import locate
from lorebind_knowledge.declarations.resources import ResourcesDeclaration
from lorebind_knowledge.errors import ConfigurationError, UsageError

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be replaced
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lorebind_knowledge.configuration.loaded import LoadedProject
    from lorebind_knowledge.declarations.base import Declaration

SECTIONS = tuple(ResourcesDeclaration.model_fields)
"""The keys of a project that hold resources."""


@dataclass(frozen=True, slots=True)
class Change:
    """What `apply` does to one resource."""

    section: str
    id: str
    action: str
    """`created`, `updated` or `unchanged`."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What `apply` did, or would do."""

    changes: list[Change]
    diff: str
    """The difference to the project's file, in unified format; empty when there is none."""
    written: bool


def export_resources(loaded: LoadedProject, kb_id: str | None = None) -> dict[str, Any]:
    """The resources of a project as plain data, with templates as they were written.

    Args:
        loaded: the project.
        kb_id: only this knowledge base of the project, with the embedder and vector database that
            it names; None means all resources. Defaults that are not written down are left out.

    Raises:
        NotFoundError: no such knowledge base.
    """
    project = loaded.project
    declared: dict[str, Sequence[Declaration]] = {
        section: getattr(project, section) for section in SECTIONS
    }
    if kb_id is not None:
        kb, _ = loaded.knowledge_base(kb_id)
        embedder, vector_db = loaded.embedder(kb.embedder), loaded.vector_db(kb.vector_db)
        declared = {
            "embedders": [one for one in project.embedders if one.id == embedder.id],
            "vector_dbs": [one for one in project.vector_dbs if one.id == vector_db.id],
            "knowledge_bases": [kb],
        }
    return {section: [one.written() for one in some] for section, some in declared.items() if some}


def apply_resources(
    project: str | Path,
    text: str,
    shown_as: str,
    *,
    dry_run: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Applied:
    """Take resources into a project's file: those whose id is there are replaced, others added.

    All else in the file stays as it is, comments included. It is written in one step, and only when
    the project is valid with it. Processes that apply at the same time take turns.

    Args:
        project: its folder or file.
        text: YAML with the keys `embedders`, `vector_dbs`, `knowledge_bases`, as `export` gives it.
        shown_as: what messages call that text.
        dry_run: write nothing.
        environ: as for `load_project`.

    Raises:
        ConfigurationError: with every problem of the text, or of the project as it would be.
        UsageError: the project's file is written in a way that cannot be edited, or cannot be
            written at all.
    """
    file = project_file(project)
    resources = _read(text, shown_as)
    with nullcontext() if dry_run or fcntl is None else _locked(file):
        return _applied(file, resources, shown_as, dry_run, environ)


def _applied(
    file: Path,
    resources: ResourcesDeclaration,
    shown_as: str,
    dry_run: bool,
    environ: Mapping[str, str] | None,
) -> Applied:
    loaded = load_project(file, environ=environ)
    before = file.read_bytes().decode("utf-8")  # line ends as they are
    after = before
    changes: list[Change] = []
    for section in SECTIONS:
        there = {one.id: one.written() for one in getattr(loaded.project, section)}
        given = {one.id: one.written() for one in getattr(resources, section)}
        for name, data in given.items():
            action = "updated" if name in there else "created"
            action = "unchanged" if there.get(name) == data else action
            changes.append(Change(section, name, action))
        changed = {name: data for name, data in given.items() if there.get(name) != data}
        if changed:
            after = _edited(after, section, changed, file.name)
    if after != before:
        _check_result(file, after, shown_as, environ)
    lines = (before.splitlines(keepends=True), after.splitlines(keepends=True))
    diff = "".join(difflib.unified_diff(*lines, file.name, f"{file.name} with {shown_as}"))
    write = after != before and not dry_run
    if write:
        _write(file, after)
    return Applied(changes, diff, write)


def _read(text: str, shown_as: str) -> ResourcesDeclaration:
    source = YamlSource.parse(text, shown_as)
    found = list(source.problems)
    try:
        resources = ResourcesDeclaration.model_validate(source.data)
    except ValidationError as error:
        found += problems(error, source, ResourcesDeclaration)
    if found:
        raise ConfigurationError(found)
    locate(resources, source)
    twice = [
        source.problem((section, index, "id"), f"{one.label} id {one.id!r} is used twice")
        for section in SECTIONS
        for index, one in enumerate(getattr(resources, section))
        if one.id in [other.id for other in getattr(resources, section)[:index]]
    ]
    if twice:
        raise ConfigurationError(twice)
    return resources


def _edited(text: str, section: str, changed: dict[str, Any], name: str) -> str:
    """The text with these entries, which says nothing else that it did not say before.

    It may be written in ways that no edit was thought of for, so what was made of it is compared.
    """
    meant = yaml.safe_load(text)
    entries = {entry["id"]: entry for entry in meant.get(section) or []}
    meant[section] = list((entries | changed).values())
    try:
        edited = put_entries(text, section, list(changed.values()))
        said = yaml.safe_load(edited)
    except yaml.YAMLError:
        said = None
    if said != meant:
        raise UsageError(
            f"the list {section!r} in {name} is written in a way that cannot be edited; "
            "write it as a list of entries, one below the other, or change it by hand"
        )
    return edited


def _check_result(file: Path, text: str, shown_as: str, environ: Mapping[str, str] | None) -> None:
    try:
        load_project(file, environ=environ, texts={file: text})
    except ConfigurationError as error:
        would_be = f"{file.name} with {shown_as}"
        raise ConfigurationError(
            replace(problem, file=would_be) if problem.file == file.name else problem
            for problem in error.problems
        ) from None


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Held while the file is read, edited and replaced; a crash frees it.

    The lock is on the file itself, so that none is left beside it.
    """
    target = Path(os.path.realpath(file))
    try:
        held = _lock(target)
    except OSError as error:
        raise _not_written(file, error) from error
    try:
        with suppress(OSError):
            _draft(target).unlink()  # of a writer that was killed
        yield
    finally:
        os.close(held)


def _lock(file: Path) -> int:
    """The descriptor that holds the lock until it is closed."""
    while True:
        # Over NFS, what is locked has to be open for writing.
        held = os.open(file, os.O_RDWR if os.access(file, os.W_OK) else os.O_RDONLY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            # A writer that had it before put another file into the place of this one.
            if os.path.samestat(os.fstat(held), os.stat(file)):
                return held
        except BaseException:
            os.close(held)
            raise
        os.close(held)


def _write(file: Path, text: str) -> None:
    """In one step: who reads the file meanwhile finds the old text or the new one."""
    target = Path(os.path.realpath(file))
    draft = _draft(target)
    try:
        with draft.open("x", encoding="utf-8", newline="") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        draft.chmod(target.stat().st_mode)
        draft.replace(target)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise _not_written(file, error) from error


def _draft(target: Path) -> Path:
    return target.with_name(f".{target.name}.draft")


def _not_written(file: Path, error: OSError) -> UsageError:
    return UsageError(f"{file.name} cannot be written: {error.strerror or error}; it is as it was")
