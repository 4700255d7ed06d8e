"""One virtual environment per peer, with the versions that `requirements/` pins."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
_INSTALLED = "installed.txt"

_LIST = """
import importlib.metadata, json
print(json.dumps({d.name: d.version for d in importlib.metadata.distributions()}))
"""


class Environment(NamedTuple):
    """The virtual environment of a peer."""

    python: Path
    versions: dict[str, str]
    """The version of each requirement."""
    packages: int
    megabytes: int


def prepare(peer: str, folder: Path) -> Environment:
    """Return the environment of a peer; create it, or update it when its requirements changed.

    Raises:
        CalledProcessError: pip could not install the requirements; `output` says why.
    """
    requirements = HERE / "requirements" / f"{peer}.txt"
    home = folder.resolve() / peer
    python = home / "bin" / "python"
    stamp = home / _INSTALLED
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != _read(requirements):
        print(f"{peer}: installing its requirements into {folder / peer}", file=sys.stderr)
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        # `-e .` in a file of requirements is relative to the current folder.
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--no-input", "-r", requirements],
            cwd=ROOT,
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        stamp.write_text(_read(requirements), encoding="utf-8")
    listed = subprocess.run([python, "-c", _LIST], capture_output=True, text=True, check=True)
    installed: dict[str, str] = json.loads(listed.stdout)
    names = [line.split("==")[0].replace("-e .", "lorebind") for line in _lines(requirements)]
    versions = {_plain(name): version for name, version in installed.items()}
    size = sum(_size(entry) for entry in home.rglob("*"))
    return Environment(
        python, {name: versions[_plain(name)] for name in names}, len(installed), size // 1_000_000
    )


def _read(requirements: Path) -> str:
    return requirements.read_text(encoding="utf-8")


def _lines(requirements: Path) -> list[str]:
    return _read(requirements).split("\n")[:-1]


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def _size(entry: Path) -> int:
    return os.stat(entry, follow_symlinks=False).st_size if entry.is_file() else 0
