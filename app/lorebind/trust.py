"""Which projects this user has trusted: kept outside of them, where no project can write.

Each has a file of its own, named after its folder's real path: what one command writes does not
touch what another does. A file that is damaged, or that cannot be read, trusts nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.errors import UsageError
from lorebind_knowledge.identity import digest

if TYPE_CHECKING:
    from lorebind_knowledge.configuration import Demands

HOME = "LOREBIND_HOME"
"""The variable that names the folder where Lorebind keeps what belongs to the user."""

_LONGEST = 100_000


def is_trusted(demands: Demands) -> bool:
    """Whether a project asks for nothing, or for what its user has trusted it with.

    What was made by `lorebind init` is trusted as a whole; of others, what they said when they were
    trusted: their YAML, and the modules that it names. A change of these needs trust again.
    """
    if not demands.all:
        return True
    known = _known(demands.root)
    return known.get("own") is True or known.get("digest") == demands.digest


def trust(demands: Demands, *, own: bool = False) -> None:
    """Trust a project from now on.

    Args:
        demands: what it asks for.
        own: this user has made it, so that it is trusted whatever it will ask for. It stays so.

    Raises:
        UsageError: nothing can be written in the folder of the user's state.
    """
    file = _file(demands.root)
    own = own or _known(demands.root).get("own") is True
    written = {"folder": str(demands.root), "digest": demands.digest, "own": own}
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Made anew under a name of its own, for its owner only, and then put in place.
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
    """Trust a project no longer; whether it was.

    Raises:
        UsageError: nothing can be removed from the folder of the user's state.
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
    """The folders that were trusted, though they may have changed since.

    Raises:
        UsageError: the folder of the user's state cannot be read.
    """
    folder = _state_folder()
    try:
        files = list(folder.glob("*.json")) if folder.is_dir() else []
    except OSError as error:
        raise _unusable(folder, error) from error
    return sorted(str(known["folder"]) for known in map(_read, files) if "folder" in known)


def _file(root: Path) -> Path:
    return _state_folder() / f"{digest(os.fsencode(root))}.json"


def _known(root: Path) -> dict[str, Any]:
    """What is kept of a project; nothing where that speaks of another folder."""
    known = _read(_file(root))
    return known if known.get("folder") == str(root) else {}


def _read(file: Path) -> dict[str, Any]:
    """What a file says; nothing where it is not there, or not what was written."""
    try:
        with file.open("rb") as opened:
            found = json.loads(opened.read(_LONGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _state_folder() -> Path:
    """Where trust is kept: below LOREBIND_HOME, else where the system keeps a program's state.

    Raises:
        UsageError: no such folder is known.
    """
    own = os.environ.get(HOME)
    folder = Path(own) if own else _state_of_programs() / "lorebind"
    if not folder.is_absolute():
        raise UsageError(f"{folder} is no absolute path; name a folder for trust by {HOME}")
    return folder / "trusted"


def _state_of_programs() -> Path:
    try:
        home = Path.home()
    except RuntimeError as error:
        raise UsageError(f"the home folder is not known; name a folder by {HOME}") from error
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    # One that is relative is to be ignored, says the specification of these folders.
    return state if state.is_absolute() else home / ".local" / "state"


def _unusable(folder: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{folder}, where trust is kept, cannot be used: {error.strerror or error}; "
        f"name another folder by {HOME}"
    )
