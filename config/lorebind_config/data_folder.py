"""The folder in which a project stores its data."""

from __future__ import annotations

from pathlib import Path

from lorebind_config.errors import StoreError

DATA_FOLDER = ".lorebind"
ELSEWHERE = "choose another location with the path of a vector database of type sqlite"


def make_data_folder(file: Path, elsewhere: str = ELSEWHERE) -> None:
    """Create the folder of a database file; exclude `.lorebind` from version control.

    Args:
        file: the database file.
        elsewhere: how to choose another location, for the error message.

    Raises:
        StoreError: the folder cannot be created.
    """
    folder = file.parent
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            if folder.name == DATA_FOLDER:
                (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"cannot create the folder {folder}: {error.strerror or error}; make {folder.parent} "
            f"writable, or {elsewhere}"
        ) from error
