"""Tasks that hold no others."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import ConfigDict, Field, model_validator

from lorebind_knowledge.declarations.base import Fault, RefusedError
from lorebind_knowledge.declarations.bindings import BindingDeclaration
from lorebind_knowledge.declarations.values import FactoryPath, JsonMap
from lorebind_knowledge.declarations.workflows.base import Next, TaskBase


class BasicTask(TaskBase):
    """One prompt, answered by an agent or by the default model."""

    templated: ClassVar[tuple[str, ...]] = (*TaskBase.templated, "prompt", "query", "history")

    type: Literal["basic"] = Field("basic", description="The kind of the task.")
    agent: str | None = Field(
        None, description="The id of the agent that answers. By default the default model answers."
    )
    prompt: str = Field(description="The question or instruction for the model; a template.")
    query: str | None = Field(
        None,
        description="The question that the knowledge is searched for; a template. By default the "
        "prompt.",
    )
    history: str | None = Field(
        None,
        description="A template that names what was said before: a list of messages, such as an "
        "input of the workflow. Each is a mapping with `role` and `content`.",
    )
    knowledge: list[BindingDeclaration] = Field(
        default_factory=list, description="The knowledge bases that the task may use."
    )

    @property
    def answers_as(self) -> str | None:
        return self.agent

    @property
    def bindings(self) -> list[BindingDeclaration]:
        return self.knowledge


class CompositeTask(TaskBase):
    """Another workflow, run as one task of this one."""

    templated: ClassVar[tuple[str, ...]] = (*TaskBase.templated, "input")

    type: Literal["composite"] = Field(description="Runs another workflow.")
    workflow: str = Field(description="The id of the workflow; its output is the task's.")
    input: JsonMap = Field(
        default_factory=dict, description="The inputs of that workflow, by name; templates."
    )


class RouterTask(TaskBase):
    """A choice among the tasks that may follow."""

    model_config = ConfigDict(
        json_schema_extra={  # the same as `_goes_by_its_routes`
            "not": {"anyOf": [{"required": ["on_success"]}, {"required": ["final"]}]}
        }
    )

    type: Literal["router"] = Field(description="Chooses what runs next.")
    condition: str = Field(
        description="A CEL expression; its value is the route, and the output of the task."
    )
    routes: dict[str, Next] = Field(
        min_length=1, description="The tasks that follow, by the value of the condition."
    )
    default: Next | None = Field(
        None, description="What follows any other value. By default another value is an error."
    )

    @model_validator(mode="after")
    def _goes_by_its_routes(self) -> RouterTask:
        for field in ("on_success", "final"):
            if field in self.model_fields_set:
                fault = Fault(f"a router has no {field}", "its routes say what follows", (field,))
                raise RefusedError([fault])
        return self

    def targets(self) -> dict[str, list[str]]:
        routes = self.routes if isinstance(self.routes, dict) else {}
        named = {f"routes.{route}": tasks for route, tasks in routes.items()}
        default = {"default": self.default} if self.default is not None else {}
        return named | default | super().targets()


class PythonTask(TaskBase):
    """A function of the project or of an installed package."""

    templated: ClassVar[tuple[str, ...]] = (*TaskBase.templated, "arguments")

    type: Literal["python"] = Field(description="Calls a function.")
    call: FactoryPath = Field(
        description="The function, plain or async, as 'module:function'. It returns JSON values "
        "or an `Update`. A parameter named `context` receives the context of the run."
    )
    arguments: JsonMap = Field(
        default_factory=dict,
        alias="with",
        description="Its keyword arguments; templates.",
    )


class AggregateTask(TaskBase):
    """A mapping of the outputs of other tasks."""

    templated: ClassVar[tuple[str, ...]] = (*TaskBase.templated, "outputs")

    type: Literal["aggregate"] = Field(description="Puts outputs together.")
    outputs: JsonMap = Field(min_length=1, description="The output, by name; templates.")


class WaitTask(TaskBase):
    """A question to a person. The run is suspended until it is answered."""

    templated: ClassVar[tuple[str, ...]] = (*TaskBase.templated, "prompt")

    type: Literal["wait"] = Field(description="Waits for an answer.")
    prompt: str = Field(description="What is asked; a template.")
    answer_schema: JsonMap | None = Field(
        None,
        alias="schema",
        description="The JSON Schema of the answer. By default any JSON is accepted.",
    )
