"""The granted demands of projects, stored outside of them so that none can trust itself.

Each project has its own file, named after the real path of its folder, so concurrent commands do
not overwrite each other's entries. A damaged or unreadable file trusts nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorebind_config.errors import UsageError
from lorebind_config.namespace import digest

if TYPE_CHECKING:
    from lorebind_config.trust import TrustRequirement, TrustRequirements

HOME = "LOREBIND_HOME"
"""The environment variable that names the folder for the user's own Lorebind files."""

_MOST = 1000
"""The number of demands that are remembered for a project."""
_LONGEST = 100_000


def is_trusted(demands: TrustRequirements) -> bool:
    """Check whether the user has granted everything that a project demands."""
    return not not_granted(demands)


def not_granted(demands: TrustRequirements) -> tuple[TrustRequirement, ...]:
    """Return the demands that the user has not granted yet.

    In a project made by `lorebind init`, variables that are only filled into texts are granted.
    """
    if not demands.all:
        return ()
    entry = _entry(demands.root)
    granted, is_own = _granted(entry), entry.get("own") is True
    return tuple(
        demand
        for demand in demands.all
        if demand.digest not in granted and not (is_own and demand.stays)
    )


def trust(demands: TrustRequirements, *, own: bool = False) -> None:
    """Grant a project what it demands, in addition to what it was granted before.

    Args:
        demands: the permissions that the project needs.
        own: this user created the project.

    Raises:
        UsageError: the folder for the user's own files is not writable.
    """
    file = _file(demands.root)
    entry = _entry(demands.root)
    own = own or entry.get("own") is True
    new = dict.fromkeys(demand.digest for demand in demands.all)
    granted = [*(old for old in _granted(entry) if old not in new), *new][-_MOST:]
    written = {"folder": str(demands.root), "granted": granted, "own": own}
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Written to a temporary file that only its owner can read, and then moved into place.
        handle, name = tempfile.mkstemp(dir=file.parent, suffix=".new")
        try:
            with open(handle, "w", encoding="ascii") as opened:
                json.dump(written, opened)
            os.replace(name, file)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        raise _unusable(file.parent, error) from error


def forget(folder: Path) -> bool:
    """Stop trusting a project, and return whether it was trusted.

    Raises:
        UsageError: the folder for the user's own files is not writable.
    """
    file = _file(Path(os.path.realpath(folder)))
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unusable(file.parent, error) from error
    return True


def trusted_folders() -> list[str]:
    """Return the folders of all trusted projects, including those that have changed since.

    Raises:
        UsageError: the folder for the user's own files is not readable.
    """
    folder = _state_folder()
    try:
        files = list(folder.glob("*.json")) if folder.is_dir() else []
    except OSError as error:
        raise _unusable(folder, error) from error
    return sorted(str(entry["folder"]) for entry in map(_read, files) if "folder" in entry)


def _file(root: Path) -> Path:
    return _state_folder() / f"{digest(os.fsencode(root))}.json"


def _entry(root: Path) -> dict[str, Any]:
    """Return the stored entry of a project; empty if it names another folder."""
    entry = _read(_file(root))
    return entry if entry.get("folder") == str(root) else {}


def _granted(entry: dict[str, Any]) -> list[str]:
    """Return the digests of the demands that an entry grants."""
    granted = entry.get("granted")
    return [key for key in granted if isinstance(key, str)] if isinstance(granted, list) else []


def _read(file: Path) -> dict[str, Any]:
    """Return the content of an entry's file; empty if it does not exist or is damaged."""
    try:
        with file.open("rb") as opened:
            entry = json.loads(opened.read(_LONGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


def _state_folder() -> Path:
    """Return the folder for trust: below LOREBIND_HOME, or where the system keeps program state.

    Raises:
        UsageError: the folder cannot be determined.
    """
    home = os.environ.get(HOME)
    folder = Path(home) if home else _state_of_programs() / "lorebind"
    if not folder.is_absolute():
        raise UsageError(f"{folder} is not an absolute path; set {HOME} to an absolute path")
    return folder / "trusted"


def _state_of_programs() -> Path:
    try:
        home = Path.home()
    except RuntimeError as error:
        raise UsageError(f"the home folder is not known; set {HOME} to a folder") from error
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    # The XDG Base Directory Specification says to ignore a relative path.
    return state if state.is_absolute() else home / ".local" / "state"


def _unusable(folder: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{folder}, where trust is stored, cannot be used: {error.strerror or error}; "
        f"set {HOME} to another folder"
    )
