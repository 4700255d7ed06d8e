"""Bindings between knowledge bases and their users, and the runtime that answers with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.plugins import lazy_door

if TYPE_CHECKING:
    from lorebind_bindings.agent_tools import agent_request as agent_request
    from lorebind_bindings.agent_tools import read_tools as read_tools
    from lorebind_bindings.agent_tools import tool_bindings as tool_bindings
    from lorebind_bindings.answering import Answer as Answer
    from lorebind_bindings.answering import AnswerStream as AnswerStream
    from lorebind_bindings.answering import Request as Request
    from lorebind_bindings.answering import answer as answer
    from lorebind_bindings.injecting import Injection as Injection
    from lorebind_bindings.injecting import inject as inject
    from lorebind_bindings.inputs import ingest_scope as ingest_scope
    from lorebind_bindings.langchain.citing import AskedInRuns as AskedInRuns
    from lorebind_bindings.langchain.citing import CitationParser as CitationParser
    from lorebind_bindings.langchain.middleware import KnowledgeMiddleware as KnowledgeMiddleware
    from lorebind_bindings.langchain.prompt import KnowledgePrompt as KnowledgePrompt
    from lorebind_bindings.langchain.reading import reading_tools as reading_tools
    from lorebind_bindings.langchain.retriever import LorebindRetriever as LorebindRetriever
    from lorebind_bindings.langchain.tool import knowledge_tool as knowledge_tool
    from lorebind_bindings.models import ModelPool as ModelPool
    from lorebind_bindings.models import make_model as make_model
    from lorebind_bindings.resolver import BindingScope as BindingScope
    from lorebind_bindings.resolver import Provenance as Provenance
    from lorebind_bindings.resolver import ResolvedBinding as ResolvedBinding
    from lorebind_bindings.resolver import bind as bind
    from lorebind_bindings.resolver import override as override
    from lorebind_bindings.resolver import override_settings as override_settings
    from lorebind_bindings.retrieving import BoundResult as BoundResult
    from lorebind_bindings.retrieving import Verdict as Verdict
    from lorebind_bindings.retrieving import retrieve as retrieve
    from lorebind_bindings.settings import GenerateSettings as GenerateSettings
    from lorebind_bindings.settings import RetrievalSettings as RetrievalSettings
    from lorebind_bindings.settings import RetrieverSettings as RetrieverSettings
    from lorebind_bindings.workflow.events import RunEvent as RunEvent
    from lorebind_bindings.workflow.events import event_schema as event_schema
    from lorebind_bindings.workflow.events.sinks import JsonLinesSink as JsonLinesSink
    from lorebind_bindings.workflow.events.sinks import MemorySink as MemorySink
    from lorebind_bindings.workflow.events.sinks import Sink as Sink
    from lorebind_bindings.workflow.events.sinks import StdoutSink as StdoutSink
    from lorebind_bindings.workflow.results import RunResult as RunResult
    from lorebind_bindings.workflow.results import TaskResult as TaskResult
    from lorebind_bindings.workflow.run_stream import RunStream as RunStream
    from lorebind_bindings.workflow.runtime import Workflows as Workflows
    from lorebind_bindings.workflow.tasks.python import TaskContext as TaskContext
    from lorebind_bindings.workflow.tasks.python import Update as Update
    from lorebind_bindings.workflow.threads.threads import ThreadInfo as ThreadInfo
else:
    __all__, __getattr__ = lazy_door(
        __name__,
        {
            ".agent_tools": "agent_request read_tools tool_bindings",
            ".answering": "Answer AnswerStream Request answer",
            ".injecting": "Injection inject",
            ".inputs": "ingest_scope",
            ".langchain.citing": "AskedInRuns CitationParser",
            ".langchain.middleware": "KnowledgeMiddleware",
            ".langchain.prompt": "KnowledgePrompt",
            ".langchain.reading": "reading_tools",
            ".langchain.retriever": "LorebindRetriever",
            ".langchain.tool": "knowledge_tool",
            ".models": "ModelPool make_model",
            ".resolver": "BindingScope Provenance ResolvedBinding bind override override_settings",
            ".retrieving": "BoundResult Verdict retrieve",
            ".settings": "GenerateSettings RetrievalSettings RetrieverSettings",
            ".workflow.events": "RunEvent event_schema",
            ".workflow.events.sinks": "JsonLinesSink MemorySink Sink StdoutSink",
            ".workflow.results": "RunResult TaskResult",
            ".workflow.run_stream": "RunStream",
            ".workflow.runtime": "Workflows",
            ".workflow.tasks.python": "TaskContext Update",
            ".workflow.threads.threads": "ThreadInfo",
        },
    )
