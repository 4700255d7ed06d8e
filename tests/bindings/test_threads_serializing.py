"""The stored form of a thread: plain JSON, and three kinds of LangGraph values."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.types import Interrupt, Send

from lorebind_bindings.workflow.threads.serializing import JsonSerializer, encoded
from lorebind_config.errors import UsageError

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
SERIALIZER = JsonSerializer()


@given(PLAIN)
def test_plain_json_is_read_as_it_was_written(value: Any) -> None:
    written = SERIALIZER.dumps_typed(value)
    assert written[0].startswith("json ")
    assert repr(SERIALIZER.loads_typed(written)) == repr(value)
    assert SERIALIZER.dumps_typed(encoded(value)) == written


def test_interrupts_are_read_back_as_interrupts() -> None:
    interrupts = (Interrupt(value={"waiting": ["a"]}, id="1"), Interrupt(value=None, id="2"))
    assert SERIALIZER.loads_typed(SERIALIZER.dumps_typed(interrupts)) == interrupts
    looks_alike = [{"id": "1", "value": {"waiting": ["a"]}}]
    assert SERIALIZER.loads_typed(SERIALIZER.dumps_typed(looks_alike)) == looks_alike


def test_an_exception_is_read_back_as_its_text() -> None:
    assert SERIALIZER.loads_typed(SERIALIZER.dumps_typed(KeyError("k"))) == "KeyError: 'k'"


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, {1, 2}, b"bytes", object(), Send("tasks", {}), [Interrupt(1), 2]],
    ids=lambda value: type(value).__name__,
)
def test_anything_else_is_not_written(value: Any) -> None:
    with pytest.raises(UsageError, match="not plain JSON"):
        SERIALIZER.dumps_typed(value)


def test_what_is_too_deep_is_not_written() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(UsageError, match="not plain JSON"):
        SERIALIZER.dumps_typed(deep)


@pytest.mark.parametrize("value", [{}, [1], "text", (Interrupt(value=None, id="1"),)], ids=repr)
def test_a_damaged_value_is_refused(value: Any) -> None:
    """A value, or its tag, that differs from what was written is not read."""
    tag, written = SERIALIZER.dumps_typed(value)
    kind = tag.partition(" ")[0]
    for damaged in (
        (tag, written[:-1]),
        (tag, b"null"),
        (tag, b""),
        (tag, None),
        (tag, "null"),
        (kind, written),
        (f"{kind} 00000000", written),
        ("", written),
        (None, written),
        (7, written),
    ):
        with pytest.raises((ValueError, TypeError)):
            SERIALIZER.loads_typed(damaged)  # type: ignore[arg-type]
