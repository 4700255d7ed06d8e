"""Tasks without nested tasks."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import ConfigDict, Field, model_validator

from lorebind_config.declarations.base import Fault, RefusedError
from lorebind_config.declarations.bindings import BindingDeclaration
from lorebind_config.declarations.values import FactoryPath, JsonMap
from lorebind_config.declarations.workflows.base import Next, TaskBase


class BasicTask(TaskBase):
    """A prompt that an agent or the default model answers."""

    templated: ClassVar[tuple[str, ...]] = (*TaskBase.templated, "prompt", "query", "history")

    type: Literal["basic"] = Field("basic", description="Asks a model.")
    agent: str | None = Field(
        None,
        description="The id of the agent that answers. By default, the default model answers.",
    )
    prompt: str = Field(description="The question or instruction for the model; a template.")
    query: str | None = Field(
        None,
        description="The question to search the knowledge for; a template. By default, the prompt.",
    )
    history: str | None = Field(
        None,
        description="The earlier messages of the conversation, as a template that names a list, "
        "such as an input of the workflow. Each message is a mapping with `role` and `content`.",
    )
    knowledge: list[BindingDeclaration] = Field(
        default_factory=list,
        description="The knowledge bases that the task can search, in addition to those of outer "
        "scopes. `[]` means only those of its agent.",
    )

    @property
    def answers_as(self) -> str | None:
        return self.agent

    @property
    def bindings(self) -> list[BindingDeclaration]:
        return self.knowledge


class CompositeTask(TaskBase):
    """Another workflow that runs as one task of this workflow."""

    templated: ClassVar[tuple[str, ...]] = (*TaskBase.templated, "input")

    type: Literal["composite"] = Field(description="Runs another workflow.")
    workflow: str = Field(
        description="The id of the workflow. Its output is the output of the task."
    )
    input: JsonMap = Field(
        default_factory=dict, description="The inputs for that workflow, by name; templates."
    )


class RouterTask(TaskBase):
    """A choice of the next tasks."""

    model_config = ConfigDict(
        json_schema_extra={  # the same as `_goes_by_its_routes`
            "not": {"anyOf": [{"required": ["on_success"]}, {"required": ["final"]}]}
        }
    )

    type: Literal["router"] = Field(description="Chooses the next tasks.")
    condition: str = Field(
        description="A CEL expression. Its value selects the route and is the output of the task."
    )
    routes: dict[str, Next] = Field(
        min_length=1, description="The next tasks, by the value of the condition."
    )
    default: Next | None = Field(
        None, description="The next tasks for any other value. By default, it is an error."
    )

    @model_validator(mode="after")
    def _goes_by_its_routes(self) -> RouterTask:
        for field in ("on_success", "final"):
            if field in self.model_fields_set:
                fault = Fault(
                    f"a router has no {field}", "its routes name the next tasks", (field,)
                )
                raise RefusedError([fault])
        return self

    def targets(self) -> dict[str, list[str]]:
        routes = self.routes if isinstance(self.routes, dict) else {}
        named = {f"routes.{route}": tasks for route, tasks in routes.items()}
        default = {"default": self.default} if self.default is not None else {}
        return named | default | super().targets()


class PythonTask(TaskBase):
    """A call of a function from the project folder or an installed package."""

    templated: ClassVar[tuple[str, ...]] = (*TaskBase.templated, "arguments")

    type: Literal["python"] = Field(description="Calls a function.")
    call: FactoryPath = Field(
        description="The function, sync or async, as 'module:function'. It returns JSON values or "
        "an `Update`. A parameter named `context` receives the context of the run."
    )
    arguments: JsonMap = Field(
        default_factory=dict,
        alias="with",
        description="The keyword arguments of the function; templates.",
    )


class AggregateTask(TaskBase):
    """A mapping of outputs of other tasks."""

    templated: ClassVar[tuple[str, ...]] = (*TaskBase.templated, "outputs")

    type: Literal["aggregate"] = Field(description="Combines outputs into a mapping.")
    outputs: JsonMap = Field(
        min_length=1, description="The values of the mapping, by name; templates."
    )


class WaitTask(TaskBase):
    """A question to a person. The run is suspended until the person answers."""

    templated: ClassVar[tuple[str, ...]] = (*TaskBase.templated, "prompt")

    type: Literal["wait"] = Field(description="Waits for an answer.")
    prompt: str = Field(description="The question to the person; a template.")
    answer_schema: JsonMap | None = Field(
        None,
        alias="schema",
        description="The JSON Schema of the answer. By default, any JSON is accepted.",
    )
