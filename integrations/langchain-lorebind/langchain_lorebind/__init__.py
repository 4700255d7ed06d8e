"""Lorebind for LangChain: the classes that a `Project` returns, in one place.

`Project` makes each of them: `project.retriever(…)`, `project.tools(…)`, `project.middleware(…)`,
`project.prompt(…)`, `project.citations()` and `project.collection(…)`.
"""

from lorebind import Project
from lorebind_bindings import (
    CitationParser,
    KnowledgeMiddleware,
    KnowledgePrompt,
    LorebindRetriever,
    knowledge_tool,
    reading_tools,
)
from lorebind_knowledge.collection import LorebindVectorStore

__all__ = [
    "CitationParser",
    "KnowledgeMiddleware",
    "KnowledgePrompt",
    "LorebindRetriever",
    "LorebindVectorStore",
    "Project",
    "knowledge_tool",
    "reading_tools",
]
