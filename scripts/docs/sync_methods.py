"""A griffe extension: the reference shows `query = sync(aquery)` as the function that it is."""

from __future__ import annotations

import re
from typing import Any

import griffe

_SYNC = re.compile(r"sync\((\w+)\)")


class SyncMethods(griffe.Extension):
    """Give blocking methods the signature and docstring of the async version they call."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Replace the attributes of a class that hold a blocking version."""
        for name, member in list(cls.members.items()):
            if not isinstance(member, griffe.Attribute):
                continue
            match = _SYNC.fullmatch(str(member.value))
            if not match:
                continue
            native = cls.members[match[1]]
            assert isinstance(native, griffe.Function)
            blocking = griffe.Function(
                name,
                parameters=native.parameters,
                returns=native.returns,
                lineno=native.lineno,
                endlineno=native.endlineno,
                docstring=native.docstring,
            )
            cls.set_member(name, blocking)
            native.docstring = griffe.Docstring(f"Async version of `{name}`.", parent=native)
