"""`lorebind schema`: print the JSON Schema of the YAML, or write it where editors find it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from lorebind.cli.options import Output, OutputOption, ProjectOption
from lorebind.cli.printing import print_data
from lorebind.cli.terminal import print_line
from lorebind_config.errors import StoreError, UsageError
from lorebind_config.project_files import make_data_folder

FOLDER = ".lorebind/schema"
"""The folder that the first lines of files written by `init` refer to."""

Kind = Literal["project", "workflow", "agent"]


def schema(
    kind: Annotated[Kind, typer.Argument(help="The kind of file.")] = "project",
    write: Annotated[
        bool, typer.Option("--write", help="Write all three into the project's .lorebind/schema.")
    ] = False,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Print the JSON Schema of the YAML, with which editors complete, explain and check it."""
    if not write:
        print_data(_schema_of(kind), Output.json if output is Output.table else output)
        return
    root = Path(project)
    written = write_schemas(root.parent if root.is_file() else root)
    if output is not Output.table:
        print_data({"written": [str(path) for path in written]}, output)
        return
    for path in written:
        print_line(f"wrote {path}")


def write_schemas(root: Path) -> list[Path]:
    """Write the schemas into a project folder, and replace those of an earlier version.

    Raises:
        UsageError: no such folder.
        StoreError: the schemas cannot be written.
    """
    if not root.is_dir():
        raise UsageError(f"there is no folder {root}")
    folder = root / FOLDER
    written = []
    with naming_the_file():
        make_data_folder(folder)
        folder.mkdir(exist_ok=True)
        for kind in get_args(Kind):
            path = folder / f"{kind}.json"
            path.write_text(json.dumps(_schema_of(kind), indent=2) + "\n", encoding="utf-8")
            written.append(path)
    return written


def _schema_of(kind: Kind) -> dict[str, Any]:
    from lorebind_config.declarations.schema import json_schema  # as in `opening.load_config`

    return json_schema(kind)


@contextmanager
def naming_the_file() -> Iterator[None]:
    """Turn errors of writing a file within the block into errors that name the file.

    Raises:
        StoreError: a file cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"cannot write {error.filename}: {error.strerror or error}; "
            "choose a writable folder on a disk with free space"
        ) from error
