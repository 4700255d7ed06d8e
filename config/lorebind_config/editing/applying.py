"""`apply`: writes resources into the file of a project or a workflow."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from lorebind_config.declarations.base import Declaration
from lorebind_config.declarations.project import SECTIONS, ResourcesDeclaration
from lorebind_config.declarations.workflows import WorkflowDeclaration
from lorebind_config.editing.resources import read_resources
from lorebind_config.editing.yaml_text import put_entries
from lorebind_config.errors import ConfigurationError, UsageError
from lorebind_config.reading.loaded import LoadedProject
from lorebind_config.reading.loading import load_project, project_file

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be replaced
    fcntl = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Change:
    """The effect of `apply` on one resource."""

    section: str
    id: str
    action: str
    """`created`, `updated` or `unchanged`."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of `apply`, or of its dry run."""

    changes: list[Change]
    diff: str
    """The change to the file as a unified diff; empty if nothing changes."""
    written: bool


def apply_resources(
    project: str | Path,
    text: str,
    shown_as: str,
    *,
    dry_run: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Applied:
    """Add resources to a project's file, and replace those whose id is already there.

    The rest of the file stays as it is, with its comments. A resource that is replaced loses the
    comments inside it and may be quoted differently. The file is replaced atomically, and only if
    the project is valid afterwards. Concurrent calls of several processes wait for each other.

    The knowledge bases of a workflow are written into the file of that workflow. A resource that
    is declared in its own file is not changed.

    Args:
        project: Folder or file of the project.
        text: YAML with the keys of `SECTIONS`, as `export`
            prints it. The key `workflow` names the workflow that declares the knowledge bases.
            It may also be a single resource, with its kind under `resource`, or the output of
            `lorebind knowledge get`.
        shown_as: Name of the text in messages.
        dry_run: Whether to leave the file unchanged.
        environ: Variables to use instead of those of the process; see `load_project`.

    Returns:
        The change to each resource, and the change to the file.

    Raises:
        ConfigurationError: The text, or the project with these resources, is not valid. The error
            lists every problem.
        NotFoundError: The workflow does not exist.
        UsageError: The file cannot be edited as it is written, the change concerns several files,
            or the file cannot be written.
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
    loaded = load_project(file, environ=environ, need_variables=True)
    texts: dict[Path, tuple[str, str]] = {}
    changes: list[Change] = []
    for section in SECTIONS:
        holder: Declaration = loaded.project
        if section == "knowledge_bases" and resources.workflow is not None:
            holder = loaded.workflow(resources.workflow)
        there = {item.id: item for item in getattr(holder, section)}
        resources_by_id = {item.id: item for item in getattr(resources, section)}
        changed: dict[str, Any] = {}
        for name, resource in resources_by_id.items():
            same = name in there and there[name].written() == resource.written()
            action = "unchanged" if same else "updated" if name in there else "created"
            changes.append(Change(section, name, action))
            if not same:
                changed[name] = resource.written()
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
            f"this would change {names}, but only one file can be changed at a time; apply the "
            "embedders and vector databases first"
        )
    ((target, (before, after)),) = texts.items()
    name = target.relative_to(file.parent).as_posix()
    would_be = f"{name} with {shown_as}"
    try:
        load_project(file, environ=environ, texts={target: after}, need_variables=True)
    except ConfigurationError as error:
        raise ConfigurationError(
            replace(problem, file=would_be) if problem.file == name else problem
            for problem in error.problems
        ) from None
    lines = (before.splitlines(keepends=True), after.splitlines(keepends=True))
    diff = "".join(difflib.unified_diff(*lines, name, would_be))
    if not dry_run:
        _write(target, after)
    return Applied(changes, diff, written=not dry_run)


def _target(loaded: LoadedProject, holder: Declaration, replaced: Sequence[Any]) -> Path:
    """Return the file that holds the list of resources to edit.

    Raises:
        UsageError: A resource to replace is declared in another file, or the list is not at the
            top level of its file.
    """
    name = loaded.project.position().file
    place = holder.position()
    if isinstance(holder, WorkflowDeclaration) and place.file == name:
        raise UsageError(
            f"workflow {holder.id!r} is declared in {place}; change its knowledge bases there, or "
            "move the workflow to its own file"
        )
    for resource in replaced:
        if (file := resource.position().file) != place.file:
            raise UsageError(
                f"{resource.label} {resource.id!r} is declared in its own file, {file}; "
                "change it there"
            )
    return loaded.root / place.file


def _text(file: Path) -> str:
    return file.read_bytes().decode("utf-8")  # keeps the line endings


def _edited(text: str, section: str, changed: dict[str, Any], name: str) -> str:
    """Return the text with these entries in the list, and with no other change to its data.

    The edit may fail for unusual ways to write YAML, so the edited text is parsed and compared
    with the expected data.
    """
    meant = yaml.safe_load(text)
    entries = {entry["id"]: entry for entry in meant.get(section) or []}
    meant[section] = list((entries | changed).values())
    try:
        edited = put_entries(text, section, list(changed.values()))
        data = yaml.safe_load(edited)
    except yaml.YAMLError:
        data = None
    if data != meant:
        raise UsageError(
            f"the list {section!r} in {name} cannot be edited as it is written; "
            "write its entries one below the other, or edit it by hand"
        )
    return edited


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold a lock while the file is read, edited and replaced; a crash releases the lock.

    The file itself is locked, so that no lock file is left behind.
    """
    target = Path(os.path.realpath(file))
    try:
        held = _lock(target)
    except OSError as error:
        raise _not_written(file, error) from error
    try:
        with suppress(OSError):
            _draft(target).unlink()  # left by a process that was killed
        yield
    finally:
        os.close(held)


def _lock(file: Path) -> int:
    """Lock a file, and return the descriptor that holds the lock until it is closed."""
    while True:
        # Over NFS, only a file that is open for writing can be locked.
        held = os.open(file, os.O_RDWR if os.access(file, os.W_OK) else os.O_RDONLY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            # The process that held the lock may have replaced this file.
            if os.path.samestat(os.fstat(held), os.stat(file)):
                return held
        except BaseException:
            os.close(held)
            raise
        os.close(held)


def _write(file: Path, text: str) -> None:
    """Replace the file atomically: concurrent readers see the old text or the new text."""
    target = Path(os.path.realpath(file))
    draft = _draft(target)
    try:
        draft.unlink(missing_ok=True)  # left by a process that was killed
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
    return UsageError(f"{file.name} cannot be written: {error.strerror or error}; it is unchanged")
