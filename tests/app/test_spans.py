"""Spans and metrics of ingests, runs, tasks, searches, models and tools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode, get_current_span
from prometheus_client import CollectorRegistry

from lorebind import Project, TaskError
from lorebind_bindings import AnswerStream
from lorebind_config.project_code import import_of_project
from lorebind_knowledge.extensions.prometheus import Prometheus
from tests.bindings.helpers import Agentic, Scripted

TRACERS = """\
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lorebind_knowledge.middleware.tracing import Tracing

EXPORTER = InMemorySpanExporter()


def make():
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    return Tracing(provider=provider)
"""
QUESTION = "What does the zebra eat?"
WORKFLOW = {
    "id": "reply",
    "input": {"question": {"type": "string"}, "ask": {"type": "boolean", "default": False}},
    "tasks": [
        {
            "id": "say",
            "prompt": "{{ .workflow.input.question }}",
            "knowledge": [{"id": "docs", "read_tools": ["find"]}],
        },
        {"id": "check", "type": "wait", "prompt": "Is that right?", "condition": "input.ask"},
    ],
}
USAGE: Any = {"input_tokens": 30, "output_tokens": 4, "total_tokens": 34}


class Traced:
    """A project with the metrics and spans that it makes."""

    def __init__(self, root: Path, model: BaseChatModel) -> None:
        (root / "tracers.py").write_text(TRACERS)
        documents = [{"id": "a", "text": "The zebra eats grass."}]
        self.registry = CollectorRegistry()
        self.project = Project.build(
            {
                "name": "zoo",
                "embedders": [{"id": "words", "provider": "hashing"}],
                "vector_dbs": [{"id": "here", "type": "memory"}],
                "knowledge_bases": [
                    {"id": "docs", "sources": [{"type": "inline", "documents": documents}]}
                ],
                "wrappers": [{"type": "python", "class": "tracers:make"}],
                "workflows": [WORKFLOW],
                "checkpointer": {"type": "memory"},
            },
            model=model,
            root=root,
            extensions=[Prometheus(self.registry)],
        )
        self._exporter = import_of_project("tracers:EXPORTER", root)

    def spans(self) -> list[ReadableSpan]:
        """Return the spans since the last call, in the order in which they began."""
        ended = self._exporter.get_finished_spans()
        self._exporter.clear()
        return sorted(ended, key=lambda span: span.start_time or 0)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"lorebind_{name}", labels)


def tree(spans: list[ReadableSpan]) -> list[str]:
    """Return the names of spans, each after those around it."""
    names = {span.context.span_id: span for span in spans}

    def path(span: ReadableSpan) -> str:
        parent = names.get(span.parent.span_id) if span.parent else None
        return f"{path(parent)} > {span.name}" if parent else span.name

    return [path(span) for span in spans]


def attributes(spans: list[ReadableSpan], name: str) -> dict[str, Any]:
    (attributes,) = [dict(span.attributes or {}) for span in spans if span.name == name]
    return attributes


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    calls = [{"name": "find", "args": {"pattern": "grass"}, "id": "c1"}]
    says = [
        AIMessage("", tool_calls=calls, usage_metadata=USAGE),
        AIMessage("Grass [1].", usage_metadata=USAGE, response_metadata={"model_name": "x-1"}),
    ]
    traced = Traced(tmp_path, Agentic(says=says))
    yield traced
    traced.project.close()


class Failing(Agentic):
    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        raise ConnectionResetError("zebra")


RUN = """\
invoke_workflow reply
invoke_workflow reply > task say
invoke_workflow reply > task say > retrieval docs
invoke_workflow reply > task say > retrieval docs > embeddings bag-of-words
invoke_workflow reply > task say > retrieval docs > nearest
invoke_workflow reply > task say > chat Agentic
invoke_workflow reply > task say > execute_tool find
invoke_workflow reply > task say > chat Agentic
invoke_workflow reply > task check
"""


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_run_is_one_trace(traced: Traced, *, is_streamed: bool) -> None:
    """Spans nest, also in a run that is streamed, and none contains a text; all are counted."""
    traced.project.ingest("docs")
    assert tree(traced.spans()) == [
        "ingest docs",
        *(f"ingest docs > {name}" for name in ("count", "embeddings bag-of-words", "add")),
    ]
    inputs = {"question": QUESTION}
    if is_streamed:
        events = list(traced.project.run_stream("reply", inputs=inputs))
        assert events[-1].type == "run_end"
    else:
        traced.project.run("reply", inputs=inputs)
    spans = traced.spans()
    assert tree(spans) == RUN.splitlines()
    assert {span.status.status_code for span in spans} == {StatusCode.UNSET}
    assert "zebra" not in repr([dict(span.attributes or {}) for span in spans])

    run = attributes(spans, "invoke_workflow reply")
    assert run["gen_ai.operation.name"] == "invoke_workflow"
    assert (run["gen_ai.workflow.name"], run["lorebind.status"]) == ("reply", "completed")
    assert attributes(spans, "task say")["lorebind.task.attempts"] == 1
    assert attributes(spans, "task check")["lorebind.task.status"] == "skipped"
    tool = attributes(spans, "execute_tool find")
    assert (tool["gen_ai.tool.name"], tool["gen_ai.tool.call.id"]) == ("find", "c1")
    (_, answered) = (span for span in spans if span.name == "chat Agentic")
    assert answered.kind is SpanKind.CLIENT
    assert dict(answered.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "agentic",
        "gen_ai.request.model": "Agentic",
        "gen_ai.response.model": "x-1",
        "gen_ai.usage.input_tokens": 30,
        "gen_ai.usage.output_tokens": 4,
    }
    assert traced.value("workflow_runs_total", workflow="reply", outcome="completed") == 1
    assert traced.value("workflow_run_duration_seconds_count", workflow="reply") == 1
    task = {"workflow": "reply", "task": "say"}
    assert traced.value("tasks_total", **task, outcome="completed") == 1
    assert traced.value("task_duration_seconds_count", **task) == 1
    model = {"provider": "agentic", "model": "Agentic"}
    assert traced.value("model_calls_total", **model, outcome="completed") == 2
    assert traced.value("model_tokens_total", **model, kind="input") == 60
    assert traced.value("model_tokens_total", **model, kind="output") == 8
    assert traced.value("tool_calls_total", tool="find", outcome="success") == 1


def test_a_run_that_waits(traced: Traced) -> None:
    """It is no failure, and neither is its task; the resumed run is another trace."""
    traced.project.ingest("docs")
    traced.spans()
    result = traced.project.run("reply", inputs={"question": QUESTION, "ask": True})
    spans = traced.spans()
    assert attributes(spans, "invoke_workflow reply")["lorebind.status"] == "waiting"
    assert attributes(spans, "task check")["lorebind.task.status"] == "waiting"
    assert {span.status.status_code for span in spans} == {StatusCode.UNSET}
    traced.project.resume("reply", result.thread_id, {"check": "yes"})
    spans = traced.spans()
    assert tree(spans) == ["invoke_workflow reply", "invoke_workflow reply > task check"]
    assert attributes(spans, "invoke_workflow reply")["lorebind.resumed"] is True
    for outcome in ("waiting", "completed"):
        assert traced.value("workflow_runs_total", workflow="reply", outcome=outcome) == 1


def test_a_model_that_fails(tmp_path: Path) -> None:
    """The call has the provider's exception, the task and the run the error that users see."""
    traced = Traced(tmp_path, Failing(says=[]))
    traced.project.ingest("docs")
    traced.spans()
    with pytest.raises(TaskError):
        traced.project.run("reply", inputs={"question": QUESTION})
    spans = traced.spans()
    failed = {span.name: span for span in spans if span.status.status_code is StatusCode.ERROR}
    kinds = {name: (span.attributes or {})["error.type"] for name, span in failed.items()}
    assert kinds == {
        "chat Failing": "ConnectionResetError",
        "task say": "ModelError",
        "invoke_workflow reply": "ModelError",
    }
    assert attributes(spans, "invoke_workflow reply")["lorebind.status"] == "failed"
    assert "zebra" not in repr([(span.attributes, span.events, span.status) for span in spans])
    model = {"provider": "failing", "model": "Failing"}
    assert traced.value("model_calls_total", **model, outcome="failed") == 1
    assert traced.value("workflow_runs_total", workflow="reply", outcome="failed") == 1
    traced.project.close()


ANSWER = """\
answer
answer > retrieval docs
answer > retrieval docs > embeddings bag-of-words
answer > retrieval docs > nearest
answer > chat Agentic
answer > execute_tool find
answer > chat Agentic
"""


async def _whole(stream: AnswerStream) -> None:
    await stream.asearch()
    async for _ in stream:
        assert not get_current_span().get_span_context().is_valid


@pytest.mark.parametrize("how", ["generate", "stream", "astream"])
def test_an_answer_is_one_trace(traced: Traced, how: str) -> None:
    """Its search, its model and its tools are below one span, which is not the reader's."""
    traced.project.ingest("docs")
    traced.spans()
    docs = traced.project.at("docs")
    tools = [tool for tool in docs.tools() if tool.name == "find"]
    if how == "generate":
        docs.generate(QUESTION, tools=tools)
    elif how == "stream":
        for _ in docs.stream(QUESTION, tools=tools):
            assert not get_current_span().get_span_context().is_valid
    else:
        asyncio.run(_whole(docs.stream(QUESTION, tools=tools)))
    spans = traced.spans()
    assert tree(spans) == ANSWER.splitlines()
    assert attributes(spans, "answer") == {
        "lorebind.kb_ids": ("docs",),
        "lorebind.verdict": "hit",
        "lorebind.citations": 1,
    }


@pytest.mark.parametrize("is_async", [False, True])
def test_a_stream_after_its_preview(traced: Traced, *, is_async: bool) -> None:
    """The span of the preview has ended, so reading has one, also while an error is handled."""
    traced.project.ingest("docs")
    traced.spans()
    stream = traced.project.stream(QUESTION, "docs", model=Scripted(says=["Grass [1]."]))
    stream.preview()
    assert tree(traced.spans()) == ANSWER.splitlines()[:4]
    try:
        raise ConnectionResetError
    except ConnectionResetError:
        text = asyncio.run(_joined(stream)) if is_async else "".join(stream)
    assert text == "Grass [1]."
    spans = traced.spans()
    assert tree(spans) == ["answer", "answer > chat Scripted"]
    assert attributes(spans, "answer")["lorebind.verdict"] == "hit"
    assert {span.status.status_code for span in spans} == {StatusCode.UNSET}


async def _joined(stream: AnswerStream) -> str:
    return "".join([part async for part in stream])


def test_a_stream_is_read_after_its_search_failed(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt has a span."""
    traced.project.ingest("docs")
    traced.spans()
    stream = traced.project.stream(QUESTION, "docs", model=Scripted(says=["Grass [1]."]))
    with monkeypatch.context() as patched:
        patched.setattr(stream, "_prepare", _fails)
        with pytest.raises(ConnectionResetError):
            stream.search()
    assert "".join(stream) == "Grass [1]."
    (failed, *rest) = traced.spans()
    assert (failed.name, failed.status.status_code) == ("answer", StatusCode.ERROR)
    assert tree(rest)[-1] == "answer > chat Scripted"
    assert {span.status.status_code for span in rest} == {StatusCode.UNSET}


async def _fails() -> None:
    raise ConnectionResetError


def test_an_answer_that_is_not_read_to_its_end(traced: Traced) -> None:
    """The call of the model ends with the stream; spans of the reader are no part of it."""
    traced.project.ingest("docs")
    traced.spans()
    stream = iter(traced.project.stream(QUESTION, "docs", model=Scripted(says=["a b"])))
    next(stream)
    assert not get_current_span().get_span_context().is_valid
    stream.close()  # type: ignore[attr-defined]
    (call,) = (span for span in traced.spans() if span.name == "chat Scripted")
    assert call.end_time is not None
    model = {"provider": "scripted", "model": "Scripted"}
    assert traced.value("model_calls_total", **model, outcome="cancelled") == 1
