"""The settings of every model that fastembed runs, and the folder of downloaded models."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from lorebind_config.declarations.base import OUTSIDE, Declaration

if TYPE_CHECKING:
    from lorebind_config.declarations.base import Wants


class ListedModelSettings(Declaration):
    """A model that fastembed lists, and the folder of its files."""

    templated: ClassVar[tuple[str, ...]] = ("cache_dir",)

    model: str = Field(min_length=1, description="A model that fastembed lists.")
    revision: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][\w.-]*(/[\w-][\w.-]*)*$",  # names a file in the cache
        description="The commit, tag or branch of the model's repository. By default the commit "
        "that is current at the first use; later uses load the same commit.",
    )
    cache_dir: str | None = Field(
        None,
        min_length=1,
        description="The folder of the downloaded models, relative to the project folder. "
        "By default `lorebind/fastembed` in the user's cache folder.",
    )
    threads: int | None = Field(
        None, ge=1, description="Threads of the model. By default chosen for this machine."
    )

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        yield "model", "reach", "the Hugging Face hub, to download the model"
        yield "cache_dir", "write", OUTSIDE


class HubModelSettings(ListedModelSettings):
    """A model of the hub, and the folder of its files."""

    model: str = Field(
        min_length=1,
        description="A model that fastembed lists. With `file`, any repository of the hub.",
    )
    file: str | None = Field(
        None,
        pattern=r"\.onnx$",
        description="For a model that fastembed does not list: the ONNX file in its repository.",
    )


def models_folder(written: str | None, root: Path) -> Path:
    """Return the folder of all models, which may not exist yet.

    Args:
        written: as declared; None means `lorebind/fastembed` in the user's cache folder.
        root: the project folder.
    """
    return _caches() / "lorebind" / "fastembed" if written is None else root / written


def _caches() -> Path:
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local)
    home = Path("~").expanduser()
    if sys.platform == "darwin":
        return home / "Library" / "Caches"
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification says to ignore a relative path.
    return named if named.is_absolute() else home / ".cache"
