"""`apply`: resources are taken into the file of a project, or of a workflow."""

from __future__ import annotations

import difflib
import os
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lorebind_knowledge.configuration.editing import put_entries
from lorebind_knowledge.configuration.loading import load_project, project_file
from lorebind_knowledge.configuration.resource_text import read_resources
from lorebind_knowledge.declarations.resources import SECTIONS
from lorebind_knowledge.declarations.workflows import WorkflowDeclaration
from lorebind_knowledge.errors import ConfigurationError, UsageError

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be replaced
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lorebind_knowledge.configuration.loaded import LoadedProject
    from lorebind_knowledge.declarations.base import Declaration
    from lorebind_knowledge.declarations.resources import ResourcesDeclaration


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
    """The difference to the file, in unified format; empty when there is none."""
    written: bool


def apply_resources(
    project: str | Path,
    text: str,
    shown_as: str,
    *,
    dry_run: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Applied:
    """Take resources into a project's file: those whose id is there are replaced, others added.

    All else in the file stays as it is, comments included; comments within a resource that is
    replaced are lost, and it is quoted anew. It is written in one step, and only when
    the project is valid with it. Processes that apply at the same time take turns.

    Knowledge bases of a workflow go into its file. A resource that has a file of its own is not
    changed.

    Args:
        project: its folder or file.
        text: YAML with the keys `embedders`, `vector_dbs`, `knowledge_bases`, as `export` gives it,
            and perhaps `workflow`, which declares the knowledge bases; or one resource, with its
            kind as `resource`; or what `lorebind knowledge get` prints.
        shown_as: what messages call that text.
        dry_run: write nothing.
        environ: as for `load_project`.

    Raises:
        ConfigurationError: with every problem of the text, or of the project as it would be.
        NotFoundError: there is no such workflow.
        UsageError: what would change is written in a way that cannot be edited, is in several
            files, or cannot be written at all.
    """
    file = project_file(project)
    resources = read_resources(text, shown_as)
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
    texts: dict[Path, tuple[str, str]] = {}
    changes: list[Change] = []
    for section in SECTIONS:
        holder: Declaration = loaded.project
        if section == "knowledge_bases" and resources.workflow is not None:
            holder = loaded.workflow(resources.workflow)
        there = {one.id: one for one in getattr(holder, section)}
        given = {one.id: one for one in getattr(resources, section)}
        changed: dict[str, Any] = {}
        for name, one in given.items():
            same = name in there and there[name].written() == one.written()
            action = "unchanged" if same else "updated" if name in there else "created"
            changes.append(Change(section, name, action))
            if not same:
                changed[name] = one.written()
        if changed:
            target = _target(loaded, holder, [there[name] for name in changed if name in there])
            before, after = texts.get(target) or 2 * (_text(target),)
            name = target.relative_to(file.parent).as_posix()
            texts[target] = before, _edited(after, section, changed, name)
    if not texts:
        return Applied(changes, "", written=False)
    if len(texts) > 1:
        names = " and ".join(target.name for target in texts)
        raise UsageError(
            f"this would change {names}, and only one file is written in one step; apply the "
            "embedders and vector databases first"
        )
    ((target, (before, after)),) = texts.items()
    name = target.relative_to(file.parent).as_posix()
    would_be = f"{name} with {shown_as}"
    _check_result(file, target, after, name, would_be, environ)
    lines = (before.splitlines(keepends=True), after.splitlines(keepends=True))
    diff = "".join(difflib.unified_diff(*lines, name, would_be))
    if not dry_run:
        _write(target, after)
    return Applied(changes, diff, written=not dry_run)


def _target(loaded: LoadedProject, holder: Declaration, replaced: Sequence[Any]) -> Path:
    """The file whose list of resources is edited.

    Raises:
        UsageError: what is to be replaced is in another one, or the list is not at its top.
    """
    name = loaded.project.position().file
    place = holder.position()
    if isinstance(holder, WorkflowDeclaration) and place.file == name:
        raise UsageError(
            f"workflow {holder.id!r} is part of {place}; change its knowledge bases there, or give "
            "it a file of its own"
        )
    for one in replaced:
        if one.position().file != place.file:
            raise UsageError(
                f"{one.label} {one.id!r} has a file of its own, {one.position().file}; change it "
                "there"
            )
    return loaded.root / place.file


def _text(file: Path) -> str:
    return file.read_bytes().decode("utf-8")  # line ends as they are


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


def _check_result(
    file: Path,
    target: Path,
    text: str,
    name: str,
    would_be: str,
    environ: Mapping[str, str] | None,
) -> None:
    try:
        load_project(file, environ=environ, texts={target: text})
    except ConfigurationError as error:
        raise ConfigurationError(
            replace(problem, file=would_be) if problem.file == name else problem
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
        draft.unlink(missing_ok=True)  # of a writer that was killed
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
