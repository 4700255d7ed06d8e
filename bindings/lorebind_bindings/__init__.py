"""Bindings between knowledge bases and their users, and the runtime that answers with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.plugins import lazy_door

if TYPE_CHECKING:
    from lorebind_bindings.agent_tools import agent_request, tool_bindings
    from lorebind_bindings.answering import Answer, AnswerStream, Request, answer
    from lorebind_bindings.injecting import Injection, inject
    from lorebind_bindings.inputs import ingest_scope
    from lorebind_bindings.langchain.citing import AskedInRuns, CitationParser
    from lorebind_bindings.langchain.middleware import KnowledgeMiddleware
    from lorebind_bindings.langchain.prompt import KnowledgePrompt
    from lorebind_bindings.langchain.retriever import LorebindRetriever
    from lorebind_bindings.langchain.tool import knowledge_tool
    from lorebind_bindings.models import ModelPool, make_model
    from lorebind_bindings.resolver import (
        BindingScope,
        Provenance,
        ResolvedBinding,
        bind,
        override,
        override_settings,
    )
    from lorebind_bindings.retrieving import BoundResult, Verdict, retrieve
    from lorebind_bindings.settings import (
        GenerateSettings,
        RetrievalSettings,
        RetrieverSettings,
    )
    from lorebind_bindings.workflow.events.events import RunEvent, event_schema
    from lorebind_bindings.workflow.events.sinks import (
        JsonLinesSink,
        MemorySink,
        Sink,
        StdoutSink,
    )
    from lorebind_bindings.workflow.results import RunResult, TaskResult
    from lorebind_bindings.workflow.run_stream import RunStream
    from lorebind_bindings.workflow.runtime import Workflows
    from lorebind_bindings.workflow.tasks.python import TaskContext, Update
    from lorebind_bindings.workflow.threads.threads import ThreadInfo

__all__ = [
    "Answer",
    "AnswerStream",
    "AskedInRuns",
    "BindingScope",
    "BoundResult",
    "CitationParser",
    "GenerateSettings",
    "Injection",
    "JsonLinesSink",
    "KnowledgeMiddleware",
    "KnowledgePrompt",
    "LorebindRetriever",
    "MemorySink",
    "ModelPool",
    "Provenance",
    "Request",
    "ResolvedBinding",
    "RetrievalSettings",
    "RetrieverSettings",
    "RunEvent",
    "RunResult",
    "RunStream",
    "Sink",
    "StdoutSink",
    "TaskContext",
    "TaskResult",
    "ThreadInfo",
    "Update",
    "Verdict",
    "Workflows",
    "agent_request",
    "answer",
    "bind",
    "event_schema",
    "ingest_scope",
    "inject",
    "knowledge_tool",
    "make_model",
    "override",
    "override_settings",
    "retrieve",
    "tool_bindings",
]

__getattr__ = lazy_door(
    __name__,
    {
        "agent_tools": ("agent_request", "tool_bindings"),
        "answering": ("Answer", "AnswerStream", "Request", "answer"),
        "injecting": ("Injection", "inject"),
        "inputs": ("ingest_scope",),
        "langchain.citing": ("AskedInRuns", "CitationParser"),
        "langchain.middleware": ("KnowledgeMiddleware",),
        "langchain.prompt": ("KnowledgePrompt",),
        "langchain.retriever": ("LorebindRetriever",),
        "langchain.tool": ("knowledge_tool",),
        "models": ("ModelPool", "make_model"),
        "resolver": (
            *("BindingScope", "Provenance", "ResolvedBinding"),
            *("bind", "override", "override_settings"),
        ),
        "retrieving": ("BoundResult", "Verdict", "retrieve"),
        "settings": ("GenerateSettings", "RetrievalSettings", "RetrieverSettings"),
        "workflow.events.events": ("RunEvent", "event_schema"),
        "workflow.events.sinks": ("JsonLinesSink", "MemorySink", "Sink", "StdoutSink"),
        "workflow.results": ("RunResult", "TaskResult"),
        "workflow.run_stream": ("RunStream",),
        "workflow.runtime": ("Workflows",),
        "workflow.tasks.python": ("TaskContext", "Update"),
        "workflow.threads.threads": ("ThreadInfo",),
    },
)
