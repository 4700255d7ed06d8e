"""Let another environment use the packages and the command of this one.

python -m scripts.layered FOLDER
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path


def layer(environment: Path) -> Path:
    """Write the file by which the Python of an environment finds the packages of this one, and the
    command `lorebind`, which runs that Python.

    Packages that the environment has itself take precedence.
    """
    ours = sysconfig.get_path("purelib")
    where = sysconfig.get_path("purelib", vars={"base": str(environment)})
    file = Path(where) / "other_environment.pth"
    # Not only the path: the folder has `.pth` files too, such as that of this project.
    file.write_text(f"import site; site.addsitedir({ours!r})\n")
    command = Path(sysconfig.get_path("scripts")) / "lorebind"
    scripts = Path(sysconfig.get_path("scripts", vars={"base": str(environment)}))
    _, _, program = command.read_text().partition("\n")
    copy = Path(shutil.copy(command, scripts))
    copy.write_text(f"#!{scripts / 'python'}\n{program}")
    return file


if __name__ == "__main__":
    layer(Path(sys.argv[1]).resolve())
