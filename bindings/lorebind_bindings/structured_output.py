"""JSON answers: how a model is asked for one, and the schema that the answer must match."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from lorebind_config.checks.json_schemas import mismatch
from lorebind_config.errors import ModelError
from lorebind_config.reading.yaml_source import short
from lorebind_knowledge.text.markdown import fences

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.tools import BaseTool

ANSWER_TOOL = "final_answer"
_ATTEMPTS = 2


class StructuredOutput:
    """One answer that must match a JSON Schema.

    A model that supports tools returns an object as the arguments of a tool call. This works
    together with other tools and with every provider. Other models and other values use text.
    """

    def __init__(self, schema: Mapping[str, Any], model: BaseChatModel) -> None:
        """
        Raises:
            MissingDependencyError: `jsonschema` is not installed.
        """
        self._schema = dict(schema)
        self.value: Any = None
        self.is_given = False
        """Whether the model has returned a value that matches."""
        self._wrong = 0
        is_object = schema.get("type") == "object"
        self.tool = _answer_tool(self._schema) if is_object and _takes_tools(model) else None
        """The tool that the model calls with its answer; None if the answer is text."""

    @property
    def instructions(self) -> str:
        """Instructions for the system message."""
        if self.tool is not None:
            return ""
        schema = json.dumps(self._schema, ensure_ascii=False)
        return (
            "Answer with JSON and nothing else: no words before or after it. The JSON must match "
            f"this JSON Schema:\n{schema}"
        )

    def take(self, response: AIMessage) -> str:
        """Store the value of an answer, or return what is wrong with it.

        Raises:
            ModelError: this is the second answer that does not match.
        """
        called = [call for call in response.tool_calls if call["name"] == ANSWER_TOOL]
        broken = [call for call in response.invalid_tool_calls if call["name"] == ANSWER_TOOL]
        if called:
            value, wrong = called[0]["args"], ""
        elif broken:
            value, wrong = None, f"its arguments are not JSON: {broken[0]['error']}"
        else:
            value, wrong = _read(str(response.text))
        wrong = wrong or mismatch(value, self._schema)
        if not wrong:
            self.value, self.is_given = value, True
            return ""
        self._wrong += 1
        if self._wrong == _ATTEMPTS:
            raise ModelError(f"the model's answer does not match output_schema: {wrong}")
        return f"That answer does not match the JSON Schema: {wrong}. Answer again."

    @property
    def text(self) -> str:
        """The value as JSON."""
        return json.dumps(self.value, ensure_ascii=False)


def texts_in(value: Any) -> Iterator[str]:
    """Yield the strings in a value, which may cite passages; lists of numbers are not markers."""
    plain = to_jsonable_python(value, fallback=str)
    if isinstance(plain, str):
        yield plain
    elif isinstance(plain, dict | list):
        for item in plain.values() if isinstance(plain, dict) else plain:
            yield from texts_in(item)


def _takes_tools(model: BaseChatModel) -> bool:
    try:
        model.bind_tools([_answer_tool({"type": "object", "properties": {}})])
    except NotImplementedError:  # raised by LangChain's base class
        return False
    return True


def _answer_tool(schema: dict[str, Any]) -> BaseTool:
    from langchain_core.tools import StructuredTool

    def final_answer(**value: Any) -> Any:
        return value

    return StructuredTool.from_function(
        final_answer,
        name=ANSWER_TOOL,
        description="Give the final answer. Call it once, when you know everything for it.",
        args_schema=schema,
    )


def _read(text: str) -> tuple[Any, str]:
    """Return the JSON value of a text, fenced or not, and an error message or ''."""
    blocks = (fence for fence in fences(text, 0, len(text)) if fence.language in ("", "json"))
    block = next(blocks, None)
    written = block.code(text) if block else text
    try:
        return json.loads(written, parse_constant=_no_number), ""
    except (ValueError, RecursionError) as error:
        return None, f"it is not JSON: {short(text)!r} ({error})"


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")
