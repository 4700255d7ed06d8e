"""The tools that MCP clients call: to search knowledge bases and to read their documents.

Their names, arguments and results are stable. `search` and `fetch` have the results that ChatGPT's
connectors read.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias
from urllib.parse import quote, unquote

from pydantic import BaseModel, ConfigDict, Field

from lorebind.plain_data import as_data
from lorebind_bindings import BindingScope
from lorebind_bindings.resolver import bind, both_filters
from lorebind_bindings.tool_filters import ToolFilters, unknown_values
from lorebind_config.errors import NotFoundError, UsageError, did_you_mean
from lorebind_prompts import EstimateCounter
from lorebind_prompts.assembler import DEFAULT_MAX_TOKENS
from lorebind_prompts.citations import address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lorebind.at_place import AtPlace
    from lorebind.knowledge_base import KnowledgeBase
    from lorebind.project import Project
    from lorebind_config.declarations.project import McpTool
    from lorebind_knowledge.documents.reading import ReadableDocument

SCHEME = "lorebind://"
_PAGE = 50
_PASSAGES = 50
_NOTE_TOKENS = 60
"""Left free for the sentence that says what is missing."""

Data: TypeAlias = dict[str, Any]


class Knowledge:
    """The knowledge bases of a project that clients see."""

    def __init__(self, project: Project) -> None:
        self.project = project
        allowed = project.config.project.mcp.knowledge_bases
        declared = [kb.id for kb in project.config.project.knowledge_bases]
        self.ids = [kb_id for kb_id in declared if not allowed or kb_id in allowed]

    @property
    def tool_filters(self) -> ToolFilters:
        """The arguments of `search` that narrow it by metadata."""
        return ToolFilters.of(self.project.config.knowledge_base(kb_id)[0] for kb_id in self.ids)

    async def unknown_values(self, kbs: Sequence[KnowledgeBase], where: Mapping[str, Any]) -> str:
        """Return sentences about values that no document has, see `tool_filters`."""
        bindings = [bind(self.project.config, kb.id) for kb in kbs]
        return await unknown_values(self.project.knowledge, bindings, where)

    def description(self, kb_id: str) -> str:
        return self.project.config.knowledge_base(kb_id)[0].description.strip()

    def knowledge_base(self, kb_id: str | None) -> KnowledgeBase:
        """Return a knowledge base; None means the only one."""
        if not kb_id:
            if len(self.some()) > 1:
                raise UsageError(f"set knowledge_base to one of: {', '.join(self.ids)}")
            kb_id = self.ids[0]
        if kb_id not in self.ids:
            hint = did_you_mean(kb_id, self.ids)
            raise NotFoundError(f"there is no knowledge base {kb_id!r}; {hint}")
        return self.project.knowledge_base(kb_id)

    def some(self) -> list[str]:
        """Return the ids, of which there is at least one.

        Raises:
            NotFoundError: there is no knowledge base.
        """
        if not self.ids:
            raise NotFoundError(
                f"the project {self.project.name!r} has no knowledge base yet; its owner declares "
                "one under knowledge_bases"
            )
        return self.ids

    def place(self, kb_ids: Sequence[str]) -> AtPlace:
        """Return the knowledge bases to search; without any, those that the project binds.

        The settings of these bindings, such as filters, are in effect only if clients see all of
        them; otherwise each knowledge base has its own.
        """
        chosen = [self.knowledge_base(kb_id).id for kb_id in kb_ids]
        if not chosen:
            bound = [binding.id for binding in BindingScope(self.project.config).resolve()]
            if bound and set(bound) <= set(self.ids):
                return self.project.at()
            chosen = [kb_id for kb_id in bound if kb_id in self.ids] or self.some()
        return self.project.at(*dict.fromkeys(chosen))

    def located(self, name: str) -> tuple[KnowledgeBase, str]:
        """Return the knowledge base and the document that an id of `search` names."""
        if name.startswith(SCHEME):
            kb_id, _, uri = name.removeprefix(SCHEME).partition("/")
            return self.knowledge_base(unquote(kb_id)), unquote(uri)
        if len(self.ids) > 1:
            raise UsageError(f"{name!r} is no id; take it from search, find or list_documents")
        return self.knowledge_base(None), name

    def budget(self, kbs: Sequence[KnowledgeBase]) -> int:
        """Return the number of tokens that a result may have."""
        limits = [kb.handle.retrieval.max_tokens for kb in kbs]
        return sum(limit or 0 for limit in limits) if all(limits) else DEFAULT_MAX_TOKENS


class Arguments(BaseModel):
    """The arguments of a tool, which `call` answers."""

    model_config = ConfigDict(extra="forbid")

    about: ClassVar[str]
    """The description of the tool."""

    @abstractmethod
    async def call(self, knowledge: Knowledge) -> Data:
        """Return the result of the tool."""


class Search(Arguments):
    about = "Search knowledge bases by meaning and by words. Cite the url of what you use."

    query: str = Field(description="The question, or words that its answer contains.")
    knowledge_bases: list[str] = Field(
        default_factory=list, description="The knowledge bases to search; by default all."
    )
    filters: dict[str, Any] | None = Field(
        None, description='Conditions on the metadata, such as {"year": {"$gte": 2020}}.'
    )
    top_k: int | None = Field(None, ge=1, le=50, description="The maximum number of passages.")

    async def call(self, knowledge: Knowledge) -> Data:
        # These conditions are added to the declared filters, and never replace them.
        where = knowledge.tool_filters.where(self.model_dump())
        more = both_filters(self.filters or {}, where)
        place = knowledge.place(self.knowledge_bases).narrowed(more)
        result = await place.aquery(self.query, top_k=self.top_k)
        results = [
            _entry(match.metadata) | {"text": match.text, "score": match.score}
            for match in result.matches
        ]
        kbs = [knowledge.knowledge_base(kb_id) for kb_id in (*result.searched, *result.skipped)]
        notes = [*result.notices]
        if where and not results:
            notes += filter(None, [await knowledge.unknown_values(kbs, where)])
        narrow = "set top_k, or knowledge_bases"
        return _within(knowledge.budget(kbs), results, narrow, notes=notes)


class Fetch(Arguments):
    about = "Read a document, or some lines of it, from the index."

    id: str = Field(description="The id of a result of search, find or list_documents.")
    first_line: int = Field(1, ge=1, description="The first line to read.")
    last_line: int | None = Field(None, ge=1, description="The last line; by default the end.")

    async def call(self, knowledge: Knowledge) -> Data:
        kb, uri = knowledge.located(self.id)
        lines = await kb.afetch(uri, first_line=self.first_line, last_line=self.last_line)
        document = lines.document
        metadata = {**document.metadata, "lines": document.lines, "first_line": lines.first_line}
        data = _entry(document.metadata) | {"text": "", "metadata": metadata}
        room = knowledge.budget([kb]) - _tokens(data) - _NOTE_TOKENS
        texts, last = list[str](), lines.last_line
        for number, text in lines.texts():
            room -= _tokens(text) + 1
            if room < 0 and texts:
                last = number - 1
                break
            texts.append(text if room >= 0 else f"{text[: max(0, 4 * (room + _tokens(text)))]}…")
        metadata["last_line"] = last
        if last < document.lines:
            metadata["note"] = f"to go on, set first_line to {last + 1}"
        return data | {"text": "\n".join(texts)}


class ListDocuments(Arguments):
    about = "List the documents of a knowledge base with their metadata, sorted by uri."

    knowledge_base: str | None = Field(None, description="Omit it if there is only one.")
    after: str | None = Field(None, description="A uri: list the documents after it.")

    async def call(self, knowledge: Knowledge) -> Data:
        kb = knowledge.knowledge_base(self.knowledge_base)
        documents = await kb.areadable_documents(limit=_PAGE + 1, after=self.after or None)
        entries = [_described(document) for document in documents[:_PAGE]]
        data = _within(knowledge.budget([kb]), entries, "", key="documents")
        fitting = data["documents"]
        if len(fitting) < len(documents):
            data["note"] = f"there are more; set after to {json.dumps(fitting[-1]['uri'])}"
        return data


class Find(Arguments):
    about = (
        "Find all lines with exact words, such as a name, a number or an error message, in any "
        "case of letters."
    )

    pattern: str = Field(description="The exact words, as they stand on one line.")
    regex: bool = Field(False, description="Whether the pattern is a regular expression (RE2).")
    knowledge_base: str | None = Field(
        None, description="The only knowledge base to look in; by default all."
    )
    id: str | None = Field(None, description="The id of the only document to look in.")

    async def call(self, knowledge: Knowledge) -> Data:
        document: str | None = None
        if self.id:
            kb, document = knowledge.located(self.id)
            kbs = [kb]
        elif self.knowledge_base:
            kbs = [knowledge.knowledge_base(self.knowledge_base)]
        else:
            every = [knowledge.knowledge_base(kb_id) for kb_id in knowledge.some()]
            kbs = [kb for kb in every if not kb.handle.is_existing]
        entries, cuts = list[Data](), list[str]()
        for kb in kbs:
            result = await kb.afind(
                self.pattern, regex=self.regex, document=document, limit=_PASSAGES
            )
            cuts += [result.cut] if result.cut else []
            entries += [
                _entry(passage.metadata) | {"lines": as_data(passage.lines)}
                for passage in result.passages
            ]
        more = "write a longer pattern, or set id or knowledge_base"
        notes = [f"{cuts[0]}; {more}"] if cuts else []
        return _within(knowledge.budget(kbs), entries, more, notes=notes)


class ListKnowledgeBases(Arguments):
    about = "List the knowledge bases, and what each is about."

    async def call(self, knowledge: Knowledge) -> Data:
        return {
            "knowledge_bases": [
                {"id": kb_id, "description": knowledge.description(kb_id)}
                for kb_id in knowledge.ids
            ]
        }


TOOLS: Mapping[McpTool, type[Arguments]] = {
    "search": Search,
    "fetch": Fetch,
    "list_documents": ListDocuments,
    "find": Find,
    "list_knowledge_bases": ListKnowledgeBases,
}


def arguments_of(name: McpTool, knowledge: Knowledge) -> type[Arguments]:
    """Return the arguments of a tool, with those that narrow a search."""
    return knowledge.tool_filters.extend(Search) if name == "search" else TOOLS[name]


def resource_uri(kb_id: str, uri: str = "") -> str:
    """Return the address of a knowledge base or of one of its documents."""
    return f"{SCHEME}{kb_id}/{quote(uri, safe='')}" if uri else f"{SCHEME}{kb_id}"


def _entry(metadata: Mapping[str, Any]) -> Data:
    """Return what names a document: `id` for `fetch`, `title`, `url` and `uri`."""
    uri, kb_id = str(metadata.get("uri", "")), str(metadata.get("kb_id", ""))
    return {
        "id": resource_uri(kb_id, uri),
        "title": str(metadata.get("title") or uri),
        "url": address(metadata),
        "uri": uri,
    }


def _described(document: ReadableDocument) -> Data:
    metadata = {
        name: value
        for name, value in document.metadata.items()
        if name not in ("kb_id", "uri", "title")
    }
    return _entry(document.metadata) | {"lines": document.lines, "metadata": metadata}


def _within(
    budget: int,
    entries: Sequence[Data],
    narrow: str,
    *,
    notes: Sequence[str] = (),
    key: Literal["results", "documents"] = "results",
) -> Data:
    """Return the entries that fit a budget, the first ones first, with the notes about them, and
    how to get the others."""
    room, fitting = budget - _NOTE_TOKENS - sum(map(_tokens, notes)), list[Data]()
    for entry in entries:
        room -= _tokens(entry)
        if room < 0 and fitting:
            missing = len(entries) - len(fitting)
            notes = [*notes, f"{missing} more do not fit; {narrow}"]
            break
        if room < 0 and "text" in entry:
            left = 4 * max(0, room + _tokens(entry["text"]))
            entry = {**entry, "text": f"{entry['text'][:left]}…"}
        fitting.append(entry)
    return {key: fitting, **({"note": "; ".join(notes)} if notes else {})}


def _tokens(value: Any) -> int:
    return EstimateCounter().count(json.dumps(value, ensure_ascii=False))
