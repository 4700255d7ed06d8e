"""Let another environment use the packages of this one: `python -m scripts.layered FOLDER`."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path


def layer(environment: Path) -> Path:
    """Write the file by which the Python of an environment finds the packages of this one.

    Packages that the environment has itself take precedence.
    """
    ours = sysconfig.get_path("purelib")
    where = sysconfig.get_path("purelib", vars={"base": str(environment)})
    file = Path(where) / "other_environment.pth"
    # Not only the path: the folder has `.pth` files too, such as that of this project.
    file.write_text(f"import site; site.addsitedir({ours!r})\n")
    return file


if __name__ == "__main__":
    layer(Path(sys.argv[1]).resolve())
