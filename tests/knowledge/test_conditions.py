"""Conditions use only known names, return JSON values, and always finish."""

from __future__ import annotations

import contextlib
import gc
import json
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorebind_config.checks.conditions import (
    MAX_DEPTH,
    MAX_ITEMS,
    NAMES,
    ConditionError,
    Converted,
    compile_condition,
)
from lorebind_config.errors import MissingDependencyError, UsageError

SCOPES: dict[str, Any] = {
    "input": {"text": "confidential", "three": 3, "half": 0.5, "none": None, "list": [1, 2]},
    "workflow": {"vars": {"limit": 10}},
    "tasks": {
        "read": {"output": {"kind": "refund", "ok": True, "sizes": [3, 5], "nothing": None}},
        "a-b": {"output": 1},
        "skipped": {"output": None},
    },
    "state": {"seen": ["x"]},
}


def value(text: str, scopes: dict[str, Any] | None = None) -> Any:
    return compile_condition(text).value(SCOPES if scopes is None else scopes)


def refused(text: str, scopes: dict[str, Any] | None = None) -> str:
    with pytest.raises(ConditionError) as caught:
        value(text, scopes)
    assert isinstance(caught.value, UsageError)
    assert "confidential" not in str(caught.value)
    place, _, message = str(caught.value).partition(": ")
    assert place.startswith("condition ")
    return message if "': " not in message else message.rpartition("': ")[2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tasks.read.output.kind", "refund"),
        ("tasks.read.output.kind == 'refund' && input.three > 2", True),
        ('tasks["a-b"].output + 1', 2),
        ("tasks['a-b'].output", 1),
        ("input.three + 1", 4),
        ("input.half", 0.5),
        ("input.three == 3.0", True),
        ("input.none", None),
        ("tasks.skipped.output == null", True),
        ("tasks.skipped.output", None),
        ("has(tasks.read.output.nothing)", True),
        ("has(tasks.read.output.missing)", False),
        ("has(tasks.read.output.missing) && tasks.read.output.missing.x > 1", False),
        ("input", SCOPES["input"]),
        ("tasks.read.output.sizes.map(s, s * 2)", [6, 10]),
        ("tasks.read.output.sizes.filter(s, s > 3).size()", 1),
        ("tasks.read.output.sizes[1]", 5),
        ("state.seen.exists(s, s == 'x')", True),
        ("'x' in state.seen ? 'again' : 'first'", "again"),
        ("{'kind': tasks.read.output.kind, 'list': [null, 1.5]}", None),
        ("workflow.vars.limit >= input.three // a comment that names item.x", True),
        ("size(tasks)", 3),
        ("tasks.exists(t, tasks[t].output == 1)", True),
    ],
)
def test_a_condition_gives_plain_json(text: str, expected: Any) -> None:
    result = value(text)
    if text.startswith("{"):
        expected = {"kind": "refund", "list": [None, 1.5]}
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tasks.read.output", {"read"}),
        ("tasks.read.output.ok && tasks['a-b'].output > tasks . other . output", None),
        ("'tasks.no' == input.tasks.no", set()),
        ("true // tasks.no", set()),
        ("size(tasks) > 1", set()),
        ("tasks.size() > 1", set()),
        ("has(tasks.read.output.x)", {"read"}),
        ("tasks[input.which].output", set()),
    ],
)
def test_the_tasks_that_a_condition_names_are_told(text: str, expected: set[str] | None) -> None:
    names = {"read", "a-b", "other"} if expected is None else expected
    assert compile_condition(text).names == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "tsks.read.ok",
            "it uses unknown name 'tsks'; did you mean 'tasks'; known: " + ", ".join(sorted(NAMES)),
        ),
        ("env.KEY", "it uses unknown name 'env'; known: " + ", ".join(sorted(NAMES))),
        ("secrets.KEY", "it uses unknown name 'secrets'; known: " + ", ".join(sorted(NAMES))),
        ("1 +", "it is malformed: at line 1, column 4, it ends too early"),
        (
            "true\nand false",
            "it is malformed: at line 2, column 1, unexpected 'and'; write &&",
        ),
        ("input.a = 1", "it is malformed: at line 1, column 9, unexpected '='; write =="),
        ("", "it is malformed: at line 1, column 1, it ends too early"),
        (
            "sizes(input.list)",
            "it calls unknown function 'sizes'; did you mean 'size'; known: all,",
        ),
        ("tasks.a-b.output", "it uses unknown name 'b'; write tasks[\"a-b\"]"),
        ("1 + 'a'", "'+' does not take an integer and text"),
        ("1 in 2", "'in' does not take an integer and an integer"),
        ("'a'[0]", "'[' does not take text and an integer"),
        ("[[1]] < {'a': {'b': 1}}", "'<' does not take a list and a mapping"),
        ("1 ? 2 : 3", "'?' does not take an integer and an integer and an integer"),
        ("(" * 200 + "1" + ")" * 200, "it is nested too deeply"),
        ("true" + " " * 100_000, "it is longer than 100,000 characters"),
    ],
)
def test_what_is_malformed_is_said_before_it_runs(text: str, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        compile_condition(text)
    error = caught.value
    assert f"{error.message}; {error.hint}".startswith(message)
    assert len(str(error)) < 500


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("input.missing", "there is no key 'missing'; use has(…) to check whether it is there"),
        ("tasks.gone.output", "there is no key 'gone'; use has(…) to check whether it is there"),
        ("tasks[input.text]", "a key is missing; use has(…) to check whether it is there"),
        (
            "tasks.skipped.output.x",
            "it reads a key of a value that is not a mapping; the output of a",
        ),
        ("input.list[7]", "an index is outside its list"),
        ("input.text > 1", "'>' does not take text and an integer"),
        ("input.three + 1.5", "'+' does not take an integer and a number with a fraction"),
        ("input.three.size()", "size does not take an integer"),
        ("input.list && input.text", "'&&' does not take these values"),
        ("int(input.none)", "int does not take null"),
        ("input.three / 0", "it divides by zero"),
        ("input.three * 9223372036854775807", "an integer becomes too large"),
        ("input.text ? 1 : 2", "the value before '?' is neither true nor false"),
        (
            "input.three.all(x, true)",
            "a macro iterates over a value that is neither a list nor a mapping",
        ),
        ("'x'.matches('(' + input.text)", "a regular expression is malformed"),
        ("int(input.text)", "a value cannot be converted"),
        ("item.x", "it uses a name that is not known here"),
        (
            "timestamp('2026-01-01T00:00:00Z')",
            "its value, a timestamp, cannot be represented in JSON",
        ),
        ("1.0 / 0.0", "its value, a double, cannot be represented in JSON"),
        ("[{1: 2}]", "its value, a map, cannot be represented in JSON"),
        ("b'x'", "its value, a bytes, cannot be represented in JSON"),
    ],
)
def test_what_cannot_be_computed_is_said_without_values(text: str, message: str) -> None:
    assert refused(text).startswith(message)


def test_values_that_json_cannot_say_are_refused() -> None:
    assert refused("input.a", {"input": {"a": object()}}) == (
        "a value cannot be represented in JSON"
    )
    assert refused("input.a", {"input": {"a": 2**70}}) == "an integer is too large"
    assert refused("input.a", {"input": {"a": "\ud800"}}) == (
        "a text value cannot be represented in JSON"
    )
    for data in ("a\0b", ["a\0"], {"\0": 1}):
        assert refused("input.a", {"input": {"a": data}}) == (
            "a text value contains a null character"
        )


def test_a_truth_is_true_or_false() -> None:
    assert compile_condition("input.three == 3").truth(SCOPES) is True
    assert compile_condition("input.three != 3").truth(SCOPES) is False
    for text, got in [
        ("input.three", "an integer"),
        ("input.none", "null"),
        ("input.text", "text"),
        ("input.list", "a list"),
        ("input.half", "a number"),
        ("input", "a mapping"),
    ]:
        with pytest.raises(ConditionError, match=f"expected true or false, got {got}"):
            compile_condition(text).truth(SCOPES)


def test_what_is_known_of_a_value_beforehand_is_told() -> None:
    kinds = {"true": "bool", "1": "int", "'a'": "string", "[1]": "list", "input.x": "dyn"}
    assert {text: compile_condition(text).kind for text in kinds} == kinds


_TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"


def _nested(levels: int) -> str:
    text = "true"
    for level in range(levels):
        text = f"{_TEN}.all(x{level}, {text})"
    return text


@pytest.mark.parametrize(
    ("text", "scopes"),
    [
        (_nested(7), {}),
        ("input.all(x, x >= 0)", {"input": list(range(1_000_000))}),
        ("input.all(x, input.all(y, x + y >= 0))", {"input": list(range(3_000))}),
        ("input.map(x, x).size() > 0", {"input": list(range(20_000))}),
        ("input.map(x, input.map(y, x)).size() > 0", {"input": list(range(MAX_ITEMS))}),
        ("input.l.filter(x, x >= 0).size() > 0", {"input": {"l": list(range(1_000_000))}}),
    ],
)
def test_a_loop_of_millions_comes_back_soon(text: str, scopes: dict[str, Any]) -> None:
    condition = compile_condition(text)
    started = time.process_time()
    with pytest.raises(ConditionError, match=r"more than 10,000 steps|at most 2,000 items"):
        condition.value(scopes)
    assert time.process_time() - started < 5


def test_the_longest_lists_that_macros_take() -> None:
    assert value("input.map(x, x + 1).size()", {"input": list(range(MAX_ITEMS))}) == MAX_ITEMS
    assert value("input.all(x, x >= 0)", {"input": list(range(9_999))}) is True


def test_a_deep_value_is_refused_and_does_not_end_the_process() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    message = f"it uses a value nested deeper than {MAX_DEPTH} levels"
    assert refused("input.a", {"input": {"a": deep}}) == message
    assert refused("input == item", {"input": deep, "item": deep}) == message
    for _ in range(100_000):  # otherwise Python would free it recursively
        deep = deep[0]


def test_what_a_condition_does_not_name_costs_nothing() -> None:
    scopes = {"input": {"a": 1, "large": list(range(1_000_000))}, "tasks": {"b": {"output": 2}}}
    condition = compile_condition("input.a + tasks.b.output == 3")
    started = time.process_time()
    assert all(condition.truth(scopes) for _ in range(1_000))
    assert time.process_time() - started < 5


def test_a_condition_is_compiled_once() -> None:
    assert compile_condition("input.once") is compile_condition("input.once")


def test_threads_share_conditions() -> None:
    def check(number: int) -> bool:
        scopes = {"input": {"a": number}, "item": -number}
        same = compile_condition("input.a + item == 0 && [1, 2].exists(x, x == 2)").truth(scopes)
        return same and compile_condition(f"input.a == {number}").truth(scopes)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(check, range(2_000)))


def test_the_package_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from lorebind_config.checks import conditions

    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    monkeypatch.delitem(sys.modules, "cel_expr_python.cel", raising=False)
    conditions._runtime.cache_clear()
    try:
        with pytest.raises(MissingDependencyError, match=r"lorebind\[workflow\]"):
            compile_condition("1 == 2 - 1")
    finally:
        conditions._runtime.cache_clear()


_CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(_CHARACTERS),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(_CHARACTERS), inner, max_size=4)
    ),
    max_leaves=15,
)


@given(_json)
@settings(deadline=None)
def test_any_json_comes_back_as_it_was(data: Any) -> None:
    result = value("tasks.t.output", {"tasks": {"t": {"output": data}}})
    assert result == data
    assert repr(result) == repr(data) or isinstance(data, dict | list)


_values = [
    "null",
    "true",
    "2",
    "0.5",
    "'a'",
    "input.text",
    "input.list",
    "input.no",
    "tasks",
    "item",
]
_operators = ["+", "-", "*", "/", "%", "<", "==", "&&", "||", "in"]
_calls = ["size({0})", "int({0})", "string({0})", "[{0}]", "{{'a': {0}}}", "-{0}", "!{0}"]
_calls += [
    "{0}.map(x, [x])",
    "{0}.exists(x, x == 2)",
    "({0} ? 1 : 2)",
    "{0}[0]",
    "'a'.matches({0})",
]
_expressions = st.recursive(
    st.sampled_from(_values),
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(_operators), inner)
        | st.builds(str.format, st.sampled_from(_calls), inner)
    ),
    max_leaves=6,
)


@given(_expressions | st.text())
@settings(deadline=None)
def test_any_text_gives_json_or_is_refused_with_a_reason(text: str) -> None:
    message, result = "", None
    try:
        result = compile_condition(text).value(SCOPES)
    except ConditionError as error:
        message = error.message
    assert message != "it fails"
    assert "malformed" in message or not re.search("confidential|does not take .*[@(<_]", message)
    json.dumps(result, allow_nan=False)


def test_what_all_items_share_is_converted_once() -> None:
    """Values that all items share are converted once per object, and after 100 evaluations."""
    condition = compile_condition("item.id + index + size(input.list) + tasks.a.output")
    shared = Converted()
    used: list[Any] = []

    def of(item: int, **inputs: Any) -> Any:
        scopes = {"input": inputs, "tasks": {"a": {"output": 0}}, "item": {"id": item}, "index": 1}
        value = condition.value(scopes, shared)
        assert value == condition.value(scopes)
        if shared[condition.text].activation not in used:
            used.append(shared[condition.text].activation)
        return value

    long = list(range(100))
    assert [of(item, list=long) for item in range(20)] == [item + 101 for item in range(20)]
    assert len(used) == 1
    assert of(5, list=[1]) == 7
    assert len(used) == 2
    with pytest.raises(ConditionError, match="there is no key 'list'"):
        of(5)
    for item in range(4_000):
        of(item, list=long)
    assert 40 <= len(used) <= 45


def test_items_are_freed() -> None:
    """Neither the runtime nor a condition keeps an item after the evaluation."""
    condition, shared = compile_condition("item != null && size(input.list) == 1"), Converted()
    item = {"id": 1}

    def used() -> int:
        gc.collect()
        return len(gc.get_referrers(item))

    before = used()
    assert condition.truth({"item": item, "index": 0, "input": {"list": [1]}}, shared)
    assert used() == before


def test_evaluations_leave_nothing_behind() -> None:
    """The runtime frees all Python objects of an evaluation, with and without items."""
    scopes = {**SCOPES, "item": {"id": 1}, "index": 0}
    for text in ("item.id + index + size(input.list)", "input.three", "input.missing"):
        condition = compile_condition(text)
        for count in (100, 1_000):
            before = sys.getallocatedblocks()
            for _ in range(count):
                with contextlib.suppress(ConditionError):
                    condition.value(scopes)
        assert sys.getallocatedblocks() - before < 100


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("input.list.exists(item, item == 3)", True),
        ("[1].map(index, index + item.id)", [8]),
        ("{'item': item.id, 'index': index}", {"item": 7, "index": 2}),
        ("has(item.id) && !has(item.no) // item", True),
        ("item.index == 3", "there is no key 'index'"),
    ],
)
def test_items_are_seen_as_all_other_values_are(text: str, expected: Any) -> None:
    """Items also work next to macros whose variables have the same names, and in comments."""
    scopes = {"item": {"id": 7}, "index": 2, "input": {"list": [3]}}
    if isinstance(expected, str):
        with pytest.raises(ConditionError, match=expected):
            compile_condition(text).value(scopes)
    else:
        assert compile_condition(text).value(scopes) == expected


def test_a_condition_cannot_ask_for_items_by_itself() -> None:
    """A condition cannot call the functions that pass items to the runtime."""
    with pytest.raises(ConditionError, match="it calls unknown function 'current_item'"):
        compile_condition("current_item() == [item]")
