"""The files that `render:` names: templates by which passages are written into prompts."""

from __future__ import annotations

from io import TextIOWrapper
from typing import TYPE_CHECKING

from lorebind_knowledge.configuration.references import problem_at
from lorebind_knowledge.declarations.base import RefusedError, within
from lorebind_knowledge.declarations.rendering import check_passage_template, is_file
from lorebind_knowledge.errors import UsageError
from lorebind_knowledge.open_inside import OutsideError, open_inside

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lorebind_knowledge.declarations.base import Declaration
    from lorebind_knowledge.errors import Problem

_LONGEST = 64 * 1024


def passage_templates(declaration: Declaration, root: Path) -> Iterator[Problem]:
    """What is wrong with the files that a declaration, or one below it, names by `render`."""
    for inner, _ in within(declaration):
        render = getattr(inner, "render", None)
        if isinstance(render, str) and is_file(render):
            try:
                read_passage_template(root, render)
            except UsageError as error:
                yield problem_at(inner, ("render",), str(error))


def read_passage_template(root: Path, name: str) -> str:
    """The template that a file in the project folder holds.

    Raises:
        UsageError: it is not there, leads out of the folder, or holds no template of passages.
    """
    try:
        with TextIOWrapper(open_inside(root, name), encoding="utf-8") as file:
            text = file.read(_LONGEST + 1)
        if len(text) > _LONGEST:
            raise UsageError(f"{name!r} is longer than {_LONGEST} characters; it is no template")
        check_passage_template(text)
    except OutsideError:
        raise UsageError(f"{name!r} leads out of the project folder") from None
    except (FileNotFoundError, IsADirectoryError):
        raise UsageError(f"there is no file {name!r}") from None
    except (OSError, UnicodeDecodeError, RefusedError) as error:
        raise UsageError(f"{name!r}: {error}") from None
    except ValueError:  # no file can be called so
        raise UsageError(f"there is no file {name!r}") from None
    return text
