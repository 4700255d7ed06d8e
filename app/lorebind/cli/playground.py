"""`lorebind playground`: look at any folder or project in the browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from lorebind.cli.opening import project_at
from lorebind.cli.options import NoVectorsOption, TrustOption
from lorebind.cli.terminal import print_line
from lorebind_config.errors import UsageError
from lorebind_config.plugins import import_extra


def playground(
    path: Annotated[
        str, typer.Argument(metavar="[FOLDER_OR_PROJECT]", help="A folder or a project.")
    ] = ".",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 chooses a free one.")
    ] = 8642,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")
    ] = True,
    trust: TrustOption = False,
    no_vectors: NoVectorsOption = False,
) -> None:
    """Show a folder or project on a page in the browser, until SIGTERM or Ctrl-C.

    No configuration is needed: the page ingests the files of the folder, answers questions from
    them, and shows why a passage was found. Only programs on this machine can open it.

    If a project wants to run code, to send variables or to leave its folder, you are asked first in
    a terminal. Otherwise, trust it with `trust`.
    """
    import_extra("uvicorn", extra="server", purpose="lorebind playground")
    import_extra("fastapi", extra="server", purpose="lorebind playground")
    # Its imports fail without these packages.
    from lorebind.server.serve import serve

    loaded = project_at(Path(path), trusted=trust, no_vectors=no_vectors)
    if not loaded.config.project.server.playground:
        raise UsageError("the project declares `server: { playground: false }`; remove it")

    def tell(where: str) -> None:
        print_line(f"the playground is at {where}/playground; to end it, press Ctrl-C")
        if browser and _has_screen():
            webbrowser.open(f"{where}/playground")

    serve(loaded, host="127.0.0.1", port=port, uds=None, tell=tell)


def _has_screen() -> bool:
    """Check for a screen, because without one a browser could start within the terminal."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
