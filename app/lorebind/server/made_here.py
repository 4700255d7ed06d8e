"""Check knowledge bases created over the API: they may use nothing that needs the owner's trust."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind.server.bodies import unstorable, whole_numbers
from lorebind_config.checks.named_code import code_named
from lorebind_config.checks.template_checks import texts
from lorebind_config.declarations.base import within, written_names
from lorebind_config.declarations.kinds import is_plugins
from lorebind_config.declarations.rendering import RENDERERS, is_file
from lorebind_config.errors import ConfigurationError, Problem
from lorebind_config.reading.at_run_time import pointer, read_knowledge_base
from lorebind_config.templates import looks_like_one

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lorebind_config.declarations.base import Declaration, Path
    from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
    from lorebind_config.reading.loaded import LoadedProject

_ALL = "*"
_READS = "it would read files of the server"
_WRITES = "it would write files of the server"
_RUNS = "it would run code of the server"
_LOADS = "it would load any model of the hub"

_OF_SOURCES = "max_bytes max_scan_bytes metadata on_textless_pages ocr"

ALLOWED: Mapping[str, str] = {
    "KnowledgeBaseDeclaration": "id description embedder sparse vector_db ingest sources language"
    " chunking preprocess retrieval metadata weak_below keep tool_filters",
    "InlineSource": f"type documents {_OF_SOURCES}",
    "SourceMetadata": "static from_path from_document types text_columns metadata_columns"
    " metadata_keys",
    "InlineDocument": "id text metadata",
    "UrlSource": f"type url urls fetch {_OF_SOURCES}",
    "MediaTranscriptSource": f"type url urls fetch {_OF_SOURCES} provider video_id languages"
    " verify",
    "OcrSettings": "when max_pages",
    "FetchConfig": "timeout_seconds max_redirects",
    "ChunkingDeclaration": "strategy unit size overlap language semantic",
    "SemanticDeclaration": "breakpoints threshold structural_weight window min_tokens max_tokens",
    "PreprocessDeclaration": "dedupe remove_html html pdf",
    "HtmlDeclaration": "extractor",
    "PdfDeclaration": "tables",
    "RetrievalDeclaration": "strategy top_k min_score min_score_on max_tokens filters signals"
    " fusion mmr_lambda rerank condense max_per_document recency versions neighbours"
    " inject_as render on_weak fallback min_results stages on_error tool_fallback read_tools",
    "RecencyDeclaration": "field half_life weight",
    "VersionsDeclaration": "by field newest",
    "FusionDeclaration": "method document_weight smoothing rank_constant depth",
    "SignalsDeclaration": "dense lexical terms",
    "SmoothingDeclaration": "weight documents",
    "StageDeclaration": "strategy min_score min_score_on filters",
    "CondenseDeclaration": "method model",
    "FastembedRerankDeclaration": "provider model candidates batch_size weak_below",
}
"""The settings that a declaration may have here, by the name of its class. All others are refused,
also those that are added to Lorebind later and are in neither list."""

REFUSED: Mapping[str, Mapping[str, str]] = {
    "PreprocessDeclaration": {"steps": _RUNS},
    "FunctionStep": {_ALL: _RUNS},
    "MediaTranscriptSource": dict.fromkeys(
        ("path", "paths", "exclude", "respect_gitignore"), _READS
    ),
    "SourceMetadata": {"sidecar": _READS},
    "OcrSettings": {"model": _READS},
    "FetchConfig": {
        "allow": "it would reach private networks",
        "headers": "it would send them to any address",
    },
    "FastembedRerankDeclaration": {
        "cache_dir": _WRITES,
        "file": _LOADS,
        "revision": _LOADS,
        "threads": "it would use any number of threads",
    },
    "OnnxRerankDeclaration": {_ALL: _READS},
    "RerankDeclaration": {_ALL: _RUNS},
    "FileGlobSource": {_ALL: _READS},
    "MarkdownGlobSource": {_ALL: _READS},
    "CloudStorageSource": {_ALL: "it would use the credentials of the server"},
    "LangChainSource": {_ALL: _RUNS},
}
"""The settings that are refused on purpose, each with what it would do; `*` stands for all."""


def read_made(
    config: LoadedProject, kb_id: str, data: Mapping[str, Any]
) -> KnowledgeBaseDeclaration:
    """Read a knowledge base that a caller of the API declares.

    Args:
        config: the project, without the knowledge bases created over the API.
        kb_id: its id, which `data` need not repeat.
        data: the declaration, with the keys of the YAML.

    Raises:
        ConfigurationError: the declaration has problems; the error lists all of them, and the
            `file` of each is a JSON pointer.
    """
    try:
        refused = list(_refused_texts(kb_id, data))
    except ValueError as error:  # see `unstorable`
        raise ConfigurationError([_problem((), str(error), "")]) from None

    def refused_in(declared: KnowledgeBaseDeclaration) -> list[Problem]:
        return [*refused, *_refused_settings(declared)]

    try:
        return read_knowledge_base(config, {**whole_numbers(data), "id": kb_id}, refused_in)
    except ConfigurationError as error:
        raise ConfigurationError(dict.fromkeys([*refused, *error.problems])) from None


def _refused_texts(kb_id: str, data: Mapping[str, Any]) -> Iterator[Problem]:
    for path, why in unstorable(data):
        yield _problem(path, why, "")
    if data.get("id", kb_id) != kb_id:
        yield _problem(("id",), "it is not the id in the path", "omit it")
    for path, text in texts(data):
        if looks_like_one(text):
            message = "a template is not possible here, it would read variables of the server"
            yield _problem(path, message, "write the value itself")


def _refused_settings(declared: KnowledgeBaseDeclaration) -> Iterator[Problem]:
    """Find everything that a valid declaration may not say here, before any file is looked at."""
    for inner, _ in within(declared):
        kind = type(inner).__name__
        why = REFUSED.get(kind, {})
        if kind not in ALLOWED or is_plugins(inner):
            word = getattr(inner, inner.kind_key, "")
            what = f"{inner.label} {inner.kind_key} {word!r}"
            yield _refused(inner, (inner.kind_key,), what, why.get(_ALL))
            for place, code in code_named(inner):
                yield _refused(inner, place, repr(str(code)), _RUNS)
            continue
        for field in sorted(inner.model_fields_set - set(ALLOWED[kind].split())):
            name = written_names(field, type(inner).model_fields[field])[0]
            yield _refused(inner, (field,), repr(name), why.get(field))
        render = getattr(inner, "render", RENDERERS[0])
        if render not in RENDERERS:
            does = _READS if is_file(render) else "it could end the block of passages in a prompt"
            yield _refused(inner, ("render",), f"render {render!r}", does)


def _refused(declared: Declaration, path: Path, what: str, why: str | None) -> Problem:
    message = f"{what} is not possible here{'' if why is None else f', {why}'}"
    place = declared.position(*(path if path[0] in declared.model_fields_set else ()))
    return Problem(place.file, place.line, place.column, message, "declare it in lorebind.yaml")


def _problem(path: Path, message: str, hint: str) -> Problem:
    return Problem(pointer(path), 0, 0, message, hint)
