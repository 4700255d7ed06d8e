"""Threads are stored as plain JSON, and nothing else is read back.

LangGraph's own serializer creates objects of any class that the database names, so anyone who can
write to the database could run code here.
"""

from __future__ import annotations

import json
from typing import Any

from lorebind_knowledge.errors import StoreError, UsageError
from lorebind_knowledge.redaction import said_by

_PLAIN = "json"
# LangGraph writes these two into channels of its own. They are told by their tag and not by what
# stands in the value, which may be anything that a task gave.
_INTERRUPTS = "json:interrupts"
_ERROR = "json:error"


class Encoded(bytes):
    """A value that `encoded` has written already."""


def encoded(value: Any) -> Encoded:
    """
    Raises:
        UsageError: the value is not plain JSON.
    """
    try:
        return Encoded(json.dumps(value, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"not plain JSON: {error}") from error


class JsonSerializer:
    """A `SerializerProtocol` of LangGraph. It needs no lock, and none of its methods runs code.

    An exception is read back as the text that says it.
    """

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        if isinstance(obj, Encoded):
            return _PLAIN, bytes(obj)
        if isinstance(obj, Exception):
            return _ERROR, encoded(said_by(obj))
        if isinstance(obj, (list, tuple)) and obj:
            from langgraph.types import Interrupt

            if all(isinstance(one, Interrupt) for one in obj):
                written = [{"id": one.id, "value": one.value} for one in obj]
                return _INTERRUPTS, encoded(written)
        return _PLAIN, encoded(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """
        Raises:
            StoreError: it was not written by Lorebind, or is damaged.
        """
        tag, written = data
        if tag not in (_PLAIN, _INTERRUPTS, _ERROR):
            raise StoreError(
                f"a thread holds a value of the kind {tag!r}, which Lorebind neither writes nor "
                "reads, as it could run code; delete the thread, or find out who wrote it"
            )
        try:
            value = json.loads(written, parse_constant=_refuse_constant)
            if tag == _INTERRUPTS:
                from langgraph.types import Interrupt

                return tuple(Interrupt(value=one["value"], id=one["id"]) for one in value)
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise StoreError(
                f"a thread holds a damaged value: {error}; delete the thread, or restore a backup"
            ) from error
        return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
