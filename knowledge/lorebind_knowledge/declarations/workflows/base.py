"""What all tasks declare: when they run, what follows, and how often they are tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from lorebind_knowledge.declarations.base import Declaration, Id
from lorebind_knowledge.declarations.bindings import BindingDeclaration  # noqa: TC001  # in a signature that pydantic reads too
from lorebind_knowledge.declarations.embedders import RetryConfig
from lorebind_knowledge.declarations.values import JsonMap
from lorebind_knowledge.declarations.workflows.one_or_more import OneOrMore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Next: TypeAlias = Annotated[list[Id], OneOrMore(), Field(min_length=1)]
"""One task or several, by id."""

Strategy: TypeAlias = Literal["wait_all", "fail_fast", "best_effort", "race"]


class EdgeDeclaration(Declaration):
    """What runs next."""

    label: ClassVar[str] = "edge"

    next: Next = Field(description="The id of the task that follows, or several.")


class CacheDeclaration(Declaration):
    """How long the output of a task is used again for the same work."""

    label: ClassVar[str] = "cache"

    ttl_seconds: float = Field(gt=0, description="The seconds after which it is done again.")


class TaskBase(Declaration):
    """What all tasks have."""

    label: ClassVar[str] = "task"
    kind_key: ClassVar[str] = "type"
    templated: ClassVar[tuple[str, ...]] = ("update",)
    expressions: ClassVar[tuple[str, ...]] = ("condition",)

    id: Id = Field(description="The name by which templates and edges refer to the task.")
    condition: str | None = Field(
        None,
        description="A CEL expression. If it is false, the task is skipped and the next task runs.",
    )
    on_success: EdgeDeclaration | None = Field(None, description="What runs after the task.")
    on_error: EdgeDeclaration | None = Field(
        None, description="What runs if the task fails; it sees `error`. By default the run fails."
    )
    final: bool = Field(False, description="Whether the path ends here.")
    retry: RetryConfig = Field(
        default_factory=lambda: RetryConfig(attempts=1),
        description="How often the task is tried in all if a provider or database is unreachable "
        "or an attempt times out. By default once.",
    )
    timeout_seconds: float | None = Field(
        None, gt=0, description="The longest time that one attempt may take."
    )
    cache: CacheDeclaration | None = Field(
        None,
        description="Use the output again for the same work, in this process only; it is "
        "forgotten when the process ends.",
    )
    update: JsonMap = Field(
        default_factory=dict,
        description="What the task writes into channels, by name; templates, which see `output`.",
    )

    @property
    def answers_as(self) -> str | None:
        """The id of the agent that does it, if any."""
        return None

    @property
    def bindings(self) -> list[BindingDeclaration]:
        """The knowledge that the task itself binds."""
        return []

    def targets(self) -> dict[str, list[str]]:
        """The tasks that may follow, by the field that names them."""
        edges = {"on_success": self.on_success, "on_error": self.on_error}
        return {field: edge.next for field, edge in edges.items() if edge is not None}

    def flows(self) -> Sequence[Sequence[TaskBase]]:
        """The lists of tasks that are nested in this one."""
        return []


def with_nested(tasks: Iterable[TaskBase]) -> Iterator[TaskBase]:
    """Tasks, each followed by those that it holds, however deep."""
    ahead = [iter(tasks)]
    while ahead:
        task = next(ahead[-1], None)
        if task is None:
            ahead.pop()
            continue
        yield task
        ahead.append(iter([inner for flow in task.flows() for inner in flow]))
