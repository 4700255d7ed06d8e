"""The functions that match texts of callers, documents or models, each as a function of a text."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from lorebind.cli.terminal import one_line
from lorebind.server.bodies import _has_more
from lorebind.server.failure_log import _forms, _without_sent
from lorebind.server.paging import Cursor
from lorebind.server.problems import ProblemError
from lorebind_bindings.structured_output import _read
from lorebind_config.checks.conditions import _TOKEN, _paths
from lorebind_config.declarations.base import Matching, RefusedError
from lorebind_config.declarations.rendering import check_passage_template
from lorebind_config.declarations.values import WEB_ADDRESS, inside_project
from lorebind_config.errors import LorebindError, did_you_mean
from lorebind_config.filters import compile_filter
from lorebind_config.redaction import is_secret_name, without
from lorebind_config.templates import fill, mentions, parts
from lorebind_knowledge.chunking.make import make_chunker
from lorebind_knowledge.chunking.recursive import code_chunker
from lorebind_knowledge.chunking.strategies import ChunkingDeclaration
from lorebind_knowledge.embedders.hashing import HashingEmbedder
from lorebind_knowledge.hub_models.snapshot import _public
from lorebind_knowledge.loaders.html.removal import without_html
from lorebind_knowledge.loaders.reader_process import FORMATS, loader_of
from lorebind_knowledge.loaders.registry import load_document
from lorebind_knowledge.records import joined_locator
from lorebind_knowledge.resilience.failures import provider_message, retry_after
from lorebind_knowledge.retrieval import diversity
from lorebind_knowledge.sources.base import without_credentials
from lorebind_knowledge.sources.folder.gitignore import grouped, parse_rule, verdict
from lorebind_knowledge.sources.folder.walk import matcher
from lorebind_knowledge.text.languages import DETECTED, detect_among, detect_language
from lorebind_knowledge.text.terms import index_terms, query_terms
from lorebind_prompts import check
from lorebind_prompts.assembler import _cut_places
from lorebind_prompts.citations import escape_markers
from lorebind_prompts.cleaning import clean_line, clean_text
from lorebind_prompts.quoting import choose
from lorebind_prompts.rendering.base import Passage
from lorebind_prompts.rendering.blocks import parse, render, without_blocks, without_imitations
from lorebind_prompts.rendering.template import TemplateRenderer
from lorebind_prompts.tokens import TiktokenCounter
from lorebind_prompts.units import split_units

Function = Callable[[str], Any]

_REFUSALS = (LorebindError, RefusedError, ProblemError, ValueError)


def _load(name: str, template: str, text: str) -> None:
    data = template.replace("%s", text).encode()
    with suppress(*_REFUSALS):
        form = name.removeprefix("a.")
        load = loader_of(form) if form in FORMATS else load_document
        without_html(load(data, name))


def _split(strategy: str, text: str) -> None:
    chunker = make_chunker(ChunkingDeclaration.model_validate({"strategy": strategy}))
    headings = [at for at in range(len(text)) if text.startswith("# ", at)]
    chunker.split(text, 0, len(text), headings)


def _split_code(text: str) -> None:
    for language in _LANGUAGES:
        code_chunker(language, 800, 120).split(text, 0, len(text))


def _ignored(text: str) -> None:
    """Match a path with a rule of the same text, up to the lengths that both can have."""
    for rule in filter(None, map(parse_rule, (text[:4096], f"*{text[:2048]}*"))):
        verdict(grouped([rule]), text[:4096])


def _quietly(function: Function, text: str) -> None:
    with suppress(*_REFUSALS):
        function(text)


_LANGUAGES = ("cpp", "go", "java", "js", "php", "python", "ruby", "rust", "scala", "html", "latex")
_PASSAGE = Passage("[1]", "a", "The hours are long.")
_TEMPLATE = "Source {{ .marker }}, {{ .source }} ({{ .index }}):\n{{ .content }}"

_WEB_ADDRESS = Matching(WEB_ADDRESS, "{!r} is not a web address")
APP: dict[str, Function] = {
    "one_line": one_line,
    "failure_log": lambda text: _without_sent(text, _forms([text[:1000], text])),
    "has_too_many_values": lambda text: _has_more(text.encode(), 100_000),
    "Cursor.read": partial(_quietly, Cursor.read),
}
BINDINGS: dict[str, Function] = {
    "structured output": _read,
    "structured output, fenced": lambda text: _read(f"```json\n{text}"),
}
PROMPTS: dict[str, Function] = {
    "check": lambda text: check(text, []),
    "escape_markers": escape_markers,
    "clean_text": clean_text,
    "clean_line": clean_line,
    "choose, question": lambda text: choose(text, [_PASSAGE]),
    "choose, passage": lambda text: choose("What hours?", [Passage("[1]", "a", text)]),
    "split_units": split_units,
    "parse": parse,
    "without_blocks": without_blocks,
    "cut_places": lambda text: _cut_places(text, len(text)),
    "render": lambda text: [
        render([Passage("[1]", text, text)], renderer=renderer, label=text)
        for renderer in ("bullets", "json", "xml", "markdown", _TEMPLATE)
    ],
    "render and parse": lambda text: parse(render([Passage("[1]", "a", text)], renderer="xml")),
    "render and parse, template": lambda text: parse(
        f"<knowledge id=12345678 format=template>\n{text}\n</knowledge id=12345678>"
    ),
    "template of passages": partial(_quietly, lambda text: TemplateRenderer(text + _TEMPLATE)),
    "without_imitations": lambda text: without_imitations([(text, True)], [_TEMPLATE]),
    "count_tokens": TiktokenCounter().count,
}
KNOWLEDGE: dict[str, Function] = {
    "did_you_mean": lambda text: did_you_mean(text, ["handbook", "returns"]),
    "compile_filter": lambda text: compile_filter({"a": {"$in": list(text)}})({"a": list(text)}),
    "without a secret": lambda text: without(text, {"hunter22": "", "a" * 20: "", text[:50]: ""}),
    "provider_message": lambda text: provider_message(ValueError(text), None),
    "retry_after": lambda text: retry_after({"retry-after": text}, 0),
    "hub errors": _public,
    "without_credentials": without_credentials,
    "detect_language": detect_language,
    "detect_among": lambda text: detect_among(text, DETECTED),
    "index_terms": lambda text: index_terms(text, "en"),
    "query_terms": lambda text: query_terms(text, ["en", "de", "ru"]),
    "dedupe": diversity._runs,
    "HashingEmbedder": lambda text: HashingEmbedder().embed_query(text),
    "joined_locator": lambda text: joined_locator(f"sheet {text}, row 1", f"sheet {text}, row 2"),
    "conditions": lambda text: list(_paths([match[0] for match in _TOKEN.finditer(text)])),
    "templates": partial(_quietly, lambda text: fill(text, {"input": {"a": text}})),
    "templates, parts": partial(_quietly, lambda text: list(parts(f"{{{{{text}"))),
    "templates, mentions": mentions,
    "templates, names": partial(
        _quietly, lambda text: fill(f"{{{{ .input.{text} }}}}", {"input": {}})
    ),
    "check_passage_template": partial(_quietly, check_passage_template),
    "is_secret_name": is_secret_name,
    "web_address": partial(_quietly, _WEB_ADDRESS.check),
    "web_address, path": partial(_quietly, lambda text: _WEB_ADDRESS.check(f"https://{text} ")),
    "web_address, template": partial(_quietly, lambda text: _WEB_ADDRESS.check(f"{{{{{text}\n")),
    "inside_project": partial(_quietly, inside_project),
    "gitignore": _ignored,
    "glob patterns": lambda text: matcher(["**/*a*_*.md"])(text[:4096]),
    "split, recursive": partial(_split, "recursive_text_splitter"),
    "split, fixed": partial(_split, "fixed"),
    "split, token": partial(_split, "token"),
    "split, markdown": partial(_split, "markdown"),
    "split, html": partial(_split, "html"),
    "split, json": partial(_split, "json"),
    "split, code": _split_code,
    "split, semantic": partial(_split, "semantic"),
    **{
        f"load {name}, {template[:20]!r}": partial(_load, name, template)
        for name, template in (
            ("a.md", "%s"),
            ("a.md", "---\ntitle: a\n---\n# %s"),
            ("a.md", "---\ntitle: %s\n---\n"),
            ("a.mdx", "%s"),
            ("a.mdx", "import a from 'a'\n\n<A %s"),
            ("a.txt", "%s"),
            ("a.rst", "%s"),
            ("a.adoc", "%s"),
            ("a.tex", "%s"),
            ("a.tex", "\\section{%s"),
            ("a.html", "%s"),
            ("a.html", "<table><tr><td>%s"),
            ("a.html", "<p class='%s'>x"),
            ("a.csv", "%s"),
            ("a.tsv", "a\tb\n%s"),
            ("a.vtt", "WEBVTT\n\n00:00.000 --> 00:01.000\n%s"),
            ("a.srt", "1\n00:00:00,000 --> 00:00:01,000\n%s"),
            ("a.eml", "Subject: a\n\n%s"),
            ("a.eml", "Subject: a\nTo: %s\n\na"),
            ("a.rtf", "{\\rtf1 %s}"),
            ("a.rtf", "{\\rtf1{\\info{\\title %s}}}"),
        )
    },
    "load a.json": lambda text: _load("a.json", "%s", json.dumps({text: [text]})),
    "load a.jsonl": lambda text: _load("a.jsonl", "%s", json.dumps([text]) + "\n{}"),
    "load a.ipynb": lambda text: _load(
        "a.ipynb", "%s", json.dumps({"cells": [{"cell_type": "markdown", "source": text}]})
    ),
}
FUNCTIONS = {**APP, **BINDINGS, **PROMPTS, **KNOWLEDGE}
