"""`loading:` what reading one document may take."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema

from lorebind_knowledge.declarations.base import Declaration, Fault, RefusedError

_SIZE = r"^([1-9][0-9]{0,5}) ?(MiB|GiB)$"
_MEBIBYTES = {"MiB": 1, "GiB": 1024}
_LEAST_MEMORY = 64


def _size(value: str) -> str:
    if not re.fullmatch(_SIZE, value):
        hint = "write a number and MiB or GiB, as in '512 MiB'"
        raise RefusedError([Fault(f"{value!r} is not an amount of memory", hint)])
    if mebibytes(value) < _LEAST_MEMORY:
        raise RefusedError([Fault(f"{value} is too little", f"write at least {_LEAST_MEMORY} MiB")])
    return value


def mebibytes(size: str) -> int:
    """The number of mebibytes of a checked `Size`."""
    number, unit = size[:-3].strip(), size[-3:]
    return int(number) * _MEBIBYTES[unit]


Size = Annotated[str, AfterValidator(_size), WithJsonSchema({"type": "string", "pattern": _SIZE})]
"""An amount of memory: a number and its unit, `512 MiB` or `2 GiB`."""


class LoadingDeclaration(Declaration):
    """What reading one document may take, of a format that can be made to take much: PDF, Word,
    PowerPoint, Excel, EPUB, RTF and mail. A document that takes more fails alone."""

    max_memory: Size = Field(
        "384 MiB",
        description="The most memory of a process that reads documents; enforced on Linux.",
    )
    max_seconds: float = Field(
        30, gt=0, le=3600, description="The longest that reading one document may take."
    )
    processes: int | None = Field(
        None,
        ge=0,
        le=64,
        description="How many processes read documents at the same time. By default one for each "
        "processor, at most 8. With 0, this process reads them itself, without limits.",
    )
