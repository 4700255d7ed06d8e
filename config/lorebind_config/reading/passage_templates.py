"""Reads the files named by `render:`, the templates that write passages into prompts."""

from __future__ import annotations

from io import TextIOWrapper
from typing import TYPE_CHECKING

from lorebind_config.checks.references import problem_at
from lorebind_config.declarations.base import RefusedError, within
from lorebind_config.declarations.rendering import check_passage_template, is_file
from lorebind_config.errors import UsageError
from lorebind_config.open_inside import OutsideError, open_inside

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lorebind_config.declarations.base import Declaration
    from lorebind_config.errors import Problem

_LONGEST = 64 * 1024


def passage_templates(declaration: Declaration, root: Path) -> Iterator[Problem]:
    """Find the problems of the `render` files of a declaration and of those nested in it."""
    for inner, _ in within(declaration):
        render = getattr(inner, "render", None)
        if isinstance(render, str) and is_file(render):
            try:
                read_passage_template(root, render)
            except UsageError as error:
                yield problem_at(inner, ("render",), str(error))


def read_passage_template(root: Path, name: str) -> str:
    """Return the template in a file of the project folder.

    Raises:
        UsageError: The file does not exist, is outside of the folder, or is not a valid passage
            template.
    """
    try:
        with TextIOWrapper(open_inside(root, name), encoding="utf-8") as file:
            text = file.read(_LONGEST + 1)
        if len(text) > _LONGEST:
            raise UsageError(
                f"{name!r} is too long for a template; expected at most {_LONGEST} characters"
            )
        check_passage_template(text)
    except OutsideError:
        raise UsageError(f"{name!r} leads out of the project folder") from None
    except (FileNotFoundError, IsADirectoryError):
        raise UsageError(f"there is no file {name!r}") from None
    except (OSError, UnicodeDecodeError, RefusedError) as error:
        raise UsageError(f"{name!r}: {error}") from None
    except ValueError:  # not a possible file name
        raise UsageError(f"there is no file {name!r}") from None
    return text
