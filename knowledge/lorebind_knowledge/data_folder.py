"""The folder that a project keeps its data in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

DATA_FOLDER = ".lorebind"
ELSEWHERE = "choose another place with the path of a vector database of type sqlite"


def make_data_folder(file: Path, elsewhere: str = ELSEWHERE) -> None:
    """Make the folder of a database file; `.lorebind` is kept out of version control.

    Args:
        file: the file.
        elsewhere: how to keep it in another place, for the message.

    Raises:
        StoreError: when it cannot be made.
    """
    folder = file.parent
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            if folder.name == DATA_FOLDER:
                (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"cannot make the folder {folder}: {error.strerror or error}; make {folder.parent} "
            f"writable, or {elsewhere}"
        ) from error
