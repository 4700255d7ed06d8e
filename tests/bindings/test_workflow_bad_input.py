"""Invalid inputs and outputs are reported by name, and the thread stays intact."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from lorebind_bindings import ModelPool, Workflows
from lorebind_config.errors import TaskError, UsageError
from lorebind_knowledge import KnowledgeService

from .helpers import write
from .workflow_helpers import (
    Declared,
    collection,
    flow,
    loaded_project,
    python,
    run,
    says,
    task_fails,
    to,
    workflows,
)


async def test_items_that_are_no_list() -> None:
    """A collection reports a value that is not a list, and resumes once it is a list."""
    inputs: list[Any] = ["text"]
    tasks = (
        python("list", lambda: inputs[0]),
        collection("c", "{{ .tasks.list.output }}", python("t", says(1))),
    )
    for value, kind in (
        ("text", "a str"),
        ({"a": 1}, "a dict"),
        (None, "nothing"),
        (3, "a int"),
    ):
        inputs[0] = value
        flows = workflows(flow(*tasks))
        with task_fails(
            UsageError, f"items of collection 'c' must be a list, got {kind}"
        ) as caught:
            await flows.run("w", {}, thread_id="t")
        assert (caught.value.task, caught.value.thread_id) == ("c", "t")
        (info,) = await flows.threads("w")
        assert info.status == "failed"
        ended = await flows.history("w", "t")
        assert [(end["path"], end["status"]) for end in ended] == [
            ("list", "completed"),
            ("c", "failed"),
        ]


@pytest.mark.parametrize(
    ("value", "text"), [("refnd", "'refnd'"), (True, "True"), (None, "None"), ([1], r"\[1\]")]
)
async def test_no_such_route(value: Any, text: str) -> None:
    """A router without a default reports the value of its condition and the known routes."""
    router = {
        "id": "r",
        "type": "router",
        "condition": "tasks.kind.output",
        "routes": {"refund": "a", "question": "a"},
    }
    tasks = (
        python("kind", says(value), on_success=to("r")),
        router,
        python("a", says(1), final=True),
    )
    match = f"router 'r' returned {text}, which is not a route; .*known: question, refund|mean 'r"
    with task_fails(UsageError, match):
        await run(*tasks)


@pytest.mark.parametrize(
    ("value", "route"), [(True, "true"), (False, "false"), (3, "3"), ("a b", "a b"), (None, "null")]
)
async def test_routes_are_texts(value: Any, route: str) -> None:
    """Booleans, integers and null select the route with the same spelling."""
    router = {
        "id": "r",
        "type": "router",
        "condition": "tasks.kind.output",
        "routes": {route: "a"},
        "default": "b",
    }
    ends = [python(name, says(name), final=True) for name in ("a", "b")]
    result = await run(python("kind", says(value), on_success=to("r")), router, *ends)
    assert (result.output, result.tasks["r"].output) == ("a", value)


class Thing:
    pass


HOLDS_ITSELF: list[Any] = []
HOLDS_ITSELF.append(HOLDS_ITSELF)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, "is not JSON: the number nan"),
        ({"a": [1, math.inf]}, r"is not JSON at \['a'\]\[1\]: the number inf"),
        ([10**4300], r"is not JSON at \[0\]: an integer of more than 14,000 bits"),
        (Thing(), "is not JSON: a value of type Thing"),
        ({"a": {1: 2}}, r"is not JSON at \['a'\]: a mapping with the key 1 of type int"),
        ([{1, 2}], r"is not JSON at \[0\]: a value of type set"),
        (b"bytes", "is not JSON: a value of type bytes"),
        (HOLDS_ITSELF, r"is not JSON at .*: lists and mappings nested deeper than"),
    ],
)
async def test_an_output_that_is_not_json(value: Any, message: str) -> None:
    """The error names the location in the value; after a fix, only the failed task runs again."""
    values = [value]
    flows = workflows(flow(python("a", says(1)), python("b", lambda: values[0])))
    with task_fails(UsageError, f"the output of task 'b' {message}"):
        await flows.run("w", {}, thread_id="t")
    values[0] = "fine"
    result = await flows.resume("w", "t")
    assert (result.output, result.tasks["a"].output) == ("fine", 1)


async def test_json_of_many_forms() -> None:
    """Any JSON value is passed on unchanged; tuples become lists."""
    value = {"a": (1, (2.5, None)), "": [True, "é\x00\ud83d\ude00", 10**30]}
    result = await run(python("a", says(value)))
    assert result.output == {"a": [1, [2.5, None]], "": [True, "é\x00\ud83d\ude00", 10**30]}


STEPS = """
def two(a, b=1): return a + b
class NoFunction: pass
value = 3
"""


@pytest.mark.parametrize(
    ("call", "inputs", "message"),
    [
        ("steps:two", {}, "steps:two needs 'a'; add it to with"),
        (
            "steps:two",
            {"a": 1, "c": 2},
            "steps:two has no parameter 'c'; known: a, b",
        ),
        ("steps:too", {}, "has no 'too'; did you mean 'two'; known: NoFunction, two, value"),
        ("stps:two", {}, r"'stps:two' cannot be imported: .*put stps.py into the project folder"),
        ("steps:value", {}, "steps:value is a int; expected .* a function"),
        ("broken:one", {}, "'broken:one' cannot be imported from broken.py: ZeroDivisionError"),
    ],
)
async def test_a_function_that_cannot_be_called(
    tmp_path: Path, call: str, inputs: dict[str, Any], message: str
) -> None:
    """The error names the task and the wrong module, name or argument, and can be handled."""
    write(tmp_path, {"steps.py": STEPS, "broken.py": "1 / 0\n"})
    task: Declared = {"id": "t", "type": "python", "call": call, "with": inputs}
    with task_fails(UsageError, f"task 't' of workflow 'w' failed: .*{message}"):
        await workflows(flow(task), root=tmp_path).run("w", {})
    end = python("e", says("handled"), final=True)
    task |= {"on_error": {"next": "e"}, "on_success": {"next": "e"}}
    assert (await workflows(flow(task, end), root=tmp_path).run("w", {})).output == "handled"


async def test_inputs_that_are_not_json() -> None:
    """Inputs that are not JSON are named, and no thread is started."""
    flows = workflows(flow(python("a", says(1)), input={"x": {"type": "object"}}))
    with pytest.raises(UsageError, match=r"input of workflow 'w' is not JSON at \['x'\]\['y'\]"):
        await flows.run("w", {"x": {"y": Thing()}}, thread_id="t")
    assert await flows.threads("w") == []


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 201])
async def test_names_that_no_thread_has(name: str) -> None:
    """Invalid thread ids are rejected, including the empty one of an unset variable."""
    flows = workflows(flow(python("a", says(1))))
    with pytest.raises(UsageError, match="cannot be the id of a thread"):
        await flows.run("w", {}, thread_id=name)


SECRETS = {"API_KEY": "sk-very-secret-1234", "DSN": "p4ssw0rd-9"}
SPY = """
def use(key, var): return len(key) + len(var)
def leak(key, var): raise ValueError(f"refused {key} of {var}")
def tell(key, var): return key
"""


@pytest.mark.parametrize(("function", "count"), [("use", 0), ("leak", 0), ("tell", 1)])
async def test_secrets_are_not_kept(tmp_path: Path, function: str, count: int) -> None:
    """Secrets in `vars` and `with` are not stored, even if an error quotes them."""
    write(tmp_path, {"spy.py": SPY})
    inputs = {"key": "{{ .secrets.API_KEY }}", "var": "{{ .workflow.vars.dsn }}"}
    task: Declared = {"id": "t", "type": "python", "call": f"spy:{function}", "with": inputs}
    asks: Declared = {"id": "ask", "type": "wait", "prompt": "Go on?"}
    declared = flow(task, asks, vars={"dsn": "x{{ .env.DSN }}x"})
    place = {"type": "sqlite"}
    loaded = loaded_project(tmp_path, declared, environ=SECRETS, checkpointer=place)
    flows = Workflows(loaded, KnowledgeService(loaded), ModelPool(loaded))
    if function == "leak":
        with pytest.raises(TaskError) as caught:
            await flows.run("w", {}, thread_id="t")
        message = str(caught.value)
    else:
        await flows.run("w", {}, thread_id="t")
        message = str(await flows.resume("w", "t", {"ask": 1}))
    await flows.close()
    assert ("sk-very-secret-1234" in message) == bool(count)
    files = [file for file in (tmp_path / ".lorebind").iterdir() if file.is_file()]
    written = b"".join(file.read_bytes() for file in files)
    assert b"spy" not in written
    assert (b"sk-very-secret-1234" in written, b"p4ssw0rd-9" in written) == (bool(count), False)
    assert len(written) > 1000
