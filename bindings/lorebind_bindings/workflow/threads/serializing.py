"""Serialization of threads as plain JSON with a checksum, the only format that is read back.

LangGraph's own serializer creates objects of any class that the database names, so anyone who can
write to the database could run code here. The checksum is part of the tag: `json 8c736521`.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

from lorebind_config.errors import UsageError
from lorebind_config.redaction import redacted_message

CHANNEL = "lorebind"
"""The channel whose values are the records of a thread's journal."""

_PLAIN = "json"
# LangGraph writes these two into its own channels. They are recognized by their tag, not by their
# value, which may be any output of a task.
_INTERRUPTS = "json:interrupts"
_ERROR = "json:error"


class Encoded(bytes):
    """A value that `encoded` has already serialized."""


def encoded(value: Any) -> Encoded:
    """Serialize a value as JSON.

    Raises:
        UsageError: the value is not plain JSON.
    """
    try:
        return Encoded(json.dumps(value, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"not plain JSON: {error}") from error


class JsonSerializer:
    """A LangGraph `SerializerProtocol`. It needs no lock, and none of its methods runs code.

    An exception is read back as its message.
    """

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        if isinstance(obj, Encoded):
            return _tagged(_PLAIN, obj)
        if isinstance(obj, Exception):
            return _tagged(_ERROR, encoded(redacted_message(obj)))
        if isinstance(obj, (list, tuple)) and obj:
            from langgraph.types import Interrupt

            if all(isinstance(item, Interrupt) for item in obj):
                written = [{"id": item.id, "value": item.value} for item in obj]
                return _tagged(_INTERRUPTS, encoded(written))
        return _tagged(_PLAIN, encoded(obj))

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Read a value back.

        Raises:
            ValueError, TypeError: the value was not written by Lorebind, or is damaged.
        """
        tag, written = data
        kind = str(tag).partition(" ")[0]
        if kind not in (_PLAIN, _INTERRUPTS, _ERROR):
            raise ValueError(
                f"it has a value of the kind {kind!r}, which Lorebind does not read because it "
                "could run code"
            )
        if _tagged(kind, written)[0] != tag:
            raise ValueError("a value differs from the one that was written")
        value = json.loads(written)
        if kind == _INTERRUPTS:
            from langgraph.types import Interrupt

            return tuple(Interrupt(value=item["value"], id=item["id"]) for item in value)
        return value


def _tagged(kind: str, written: bytes) -> tuple[str, bytes]:
    return f"{kind} {zlib.crc32(written):08x}", bytes(written)
