"""`loading:` the limits for reading one document."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema

from lorebind_config.declarations.base import Declaration, Fault, RefusedError

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
    """Return the number of mebibytes of a validated `Size`."""
    number, unit = size[:-3].strip(), size[-3:]
    return int(number) * _MEBIBYTES[unit]


Size = Annotated[str, AfterValidator(_size), WithJsonSchema({"type": "string", "pattern": _SIZE})]
"""An amount of memory: a number and a unit, such as `512 MiB` or `2 GiB`."""


class LoadingDeclaration(Declaration):
    """Limits for reading one document in a format that can consume a lot: HTML, PDF, Word,
    PowerPoint, Excel, EPUB, RTF and mail. A document that exceeds them fails; the others are still
    read."""

    max_memory: Size = Field(
        "384 MiB",
        description="Maximum memory of each process that reads documents, such as `512 MiB` or "
        "`2 GiB`; at least 64 MiB. Raise it if large documents fail. Enforced on Linux only.",
    )
    max_seconds: float = Field(
        30,
        gt=0,
        le=3600,
        description="Maximum time in seconds for reading one document. Raise it if large documents "
        "fail.",
    )
    processes: int | None = Field(
        None,
        ge=0,
        le=64,
        description="Number of processes that read documents at the same time. By default one per "
        "processor, at most 8. With 0, documents are read in the main process, without limits.",
    )
