"""The script that writes the YAML reference, as a module."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

SCRIPT = "docs/reference/make_page.py"


def _load() -> Any:
    spec = importlib.util.spec_from_file_location(
        "yaml_reference", Path(__file__).parents[2] / SCRIPT
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = _load()
